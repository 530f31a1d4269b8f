// A search looks for the anchor of an entry on its page, and takes the dots of a name for classes: it is told the name.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const plain = Search.htmlToText;
  Search.htmlToText = (page, anchor) => plain(page, anchor ? `#${CSS.escape(anchor.slice(1))}` : anchor);
});
