"""Words for the screenshots: long, short, in several scripts, and with every kind of block."""

from __future__ import annotations

QUESTION = "What is a mosaic made of? Please show me an example in Python as well, and a table of materials."

ANSWER = """<think>The person wants a short tour.
A list, some code, a table: that is all.</think>

Sure — here is a **short tour** of what a mosaic is made of, with `inline code` and a \
[link](https://example.org).

## Materials

1. *Tesserae*: small cubes of stone or glass
2. Mortar, which holds them
   - fine sand
   - lime
3. Grout

> A mosaic is a picture made of pieces that each stay what they are.

```python
def lay(tesserae: list[Tessera], rows: int = 12) -> Mosaic:
    \"\"\"Set every piece in its place.\"\"\"
    # the largest first
    return Mosaic(sorted(tesserae, key=lambda t: t.area)[:rows])
```

| Material | Size | Price |
|---|---:|---|
| Glass | 10 mm | high |
| Stone | 20 mm | low |

It costs between $5 and $10. 你好 世界 🙂"""

STREAMING = """Of course. I will count slowly, and say a word about every number.

**One** is the first piece of a mosaic. **Two** makes a pair, and **three** the smallest triangle; from there on the \
pattern begins to"""

LONG_NAME = "Qwen3 Coder 480B A35B Instruct Abliterated Extended Context Preview 2507"

TITLES = (
    "Mosaic materials and how they are laid",
    "Refactor the tokenizer tests",
    "为什么天空是蓝色的",
    "A much longer title that does not fit into the sidebar at all, whatever its width",
    "Weekend in Ravenna",
    "Explain KV cache paging",
    "Recipe: focaccia",
)

TOOL_CALLS = (
    "<|channel|>analysis<|message|>The forecast has to be looked up.<|end|><|start|>assistant<|channel|>commentary"
    "<|message|>Let me look that up.<|end|><|start|>assistant<|channel|>commentary to=functions.weather"
    ' <|constrain|>json<|message|>{"city": "Ravenna", "days": 3, "units": "metric"}<|end|><|start|>assistant'
    '<|channel|>commentary to=functions.map<|message|>{"city": "Ravenna"}<|call|>'
)

THINKING = """<think>The question is about durability. Three things matter here:
first the material, stone and glass, which neither light nor water changes much;
then the mortar, which holds every piece by itself, so that a crack does not run through the whole picture;
and last that a floor is repaired piece by piece"""

FORMULAS = r"""We complete the square in $ax^2 + bx + c = 0$, where $a \neq 0$:

$$x^2 + \frac{b}{a}x = -\frac{c}{a}$$

Adding $\left(\frac{b}{2a}\right)^2$ to both sides gives

\[ \left(x + \frac{b}{2a}\right)^2 = \frac{b^2 - 4ac}{4a^2} \]

so that $x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$. A tile costs $5, a box of ten $45.

- The discriminant $b^2 - 4ac$ decides how many roots there are
- $\sum_{k=1}^{n} k = \frac{n(n+1)}{2}$ is another one to remember"""

OTHER_SCRIPTS = """بالطبع! يمكنني مساعدتك في **فهم النصوص** وكتابتها وترجمتها.

- اكتب سؤالك هنا
- اطلب مثالاً مع `print("hello")`

שלום! גם עברית נכתבת מימין לשמאל.

日本語も中文也可以，한국어도 됩니다。 Emoji: 🙂 👩‍👩‍👧 🏳️‍🌈 ✅

> ציטוט קצר"""

LONG_CODE = """Here is one, with a long line:

```typescript
export async function fetchTesserae(endpoint: string, options: RequestInit = {}, retries = 3): Promise<Tessera[]> {
  for (let attempt = 0; attempt <= retries; attempt++) {
    const response = await fetch(`${endpoint}/tesserae?page=${attempt}`, { ...options, cache: "no-store" });
    if (response.ok) return (await response.json()) as Tessera[]; // <T> & "quotes" stay as they are
  }
  throw new Error("gave up after " + retries);
}
```

Run it with:

```bash
npm install && npm run build -- --watch
```

Read https://example.org/docs/fetch for more."""
