"""The chat page: conversations, transcript, composer, and the models behind them."""
