"""Text in and out of a model: tokenizer, chat template, sampler, incremental detokenizer, reasoning splitter."""
