"""Data of the user: folders of images, tables, texts, data sets of Hugging Face."""
