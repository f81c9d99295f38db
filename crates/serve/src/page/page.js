"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};
const percent = (p) => (p > 0.9995 ? ">99.9" : (100 * p).toFixed(1)) + " %";
