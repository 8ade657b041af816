"""Data of one's own: folders of images, tables, texts."""
