"""Bertie from Python: tasks, the script that everybody knows, attention on arrays, a classifier in a pipeline.

python examples/python_tour.py          after pip install . in the repository; docs/python.md says more
"""

import numpy as np

import bertie
from bertie import BertModel, BertTokenizer

# The model in the box; a name or a folder would be bertie.load("all-MiniLM-L6-v2").
model = bertie.load()
for fill in model.fill_mask("He was [MASK] in London in 1897.", top=3).masks[0]:
    print(f"{fill.score:.3f}  {fill.token}")
texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
print(model.embed(texts).shape, model.similar("sunshine", texts, top=1)[0].text)

# Who looks at whom. In a notebook the last line of a cell shows it; here it becomes a page.
attention = model.attend("The bank of the river.")
print(attention, attention.summary(layer=0, head=1))
with open("attention.html", "w") as page:
    page.write(attention.html())

# transformers' names. return_tensors="pt" would give torch's tensors.
tokenizer = BertTokenizer.from_pretrained()
outputs = BertModel.from_pretrained()(**tokenizer(texts, padding=True, return_tensors="np"), output_attentions=True)
print(outputs.last_hidden_state.shape, len(outputs.attentions), outputs.attentions[0].shape)

# Attention on arrays of your own: (batch, heads, tokens, size).
q, k, v = np.random.default_rng(1).standard_normal((3, 2, 8, 128, 64), dtype="float32")
print(bertie.attention(q, k, v, look=bertie.Look.window(16)).shape)

# A classifier from a few rows, with a function that is told how it goes.
rows = [("a fine film", "good"), ("great fun", "good"), ("a dull film", "bad"), ("no fun", "bad")] * 6
tuned = bertie.finetune("classify", rows, steps=20, on_evaluation=lambda e: print(e.step, e.scores[0]))
print(tuned.model.classify("what fun").label)
