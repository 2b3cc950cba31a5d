/** What is known of a box, beside the pointer and for those who don't see it. */

import type { Names } from './names';
import { element } from './table';
import { ms, percent } from './text';
import type { Tree } from './tree';

/** The tip. */
export class Tip {
  private readonly tip = element('tip');

  constructor(private readonly names: Names) {}

  /** Shows what a node is, at that place of the page; -1 hides it. */
  point(tree: Tree, node: number, whole: number, x: number, y: number): void {
    if (node < 0) this.hide();
    else this.show(this.text(tree, node, whole), x, y);
  }

  /** Shows a text. */
  show(text: string, x: number, y: number): void {
    this.tip.hidden = false;
    this.tip.textContent = text;
    const { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${Math.max(Math.min(x + 14, innerWidth - offsetWidth - 8), 4)}px`;
    const below = y + 18 + offsetHeight < innerHeight;
    this.tip.style.top = `${below ? y + 18 : Math.max(y - offsetHeight - 10, 4)}px`;
  }

  hide(): void {
    this.tip.hidden = true;
  }

  /** For those who don't see it. */
  tell(tree: Tree, node: number, whole: number): void {
    element('told').textContent = this.text(tree, node, whole);
  }

  private text(tree: Tree, node: number, whole: number): string {
    const of = tree.functions[node];
    const { functions, modules, origins } = this.names;
    const amount = (ns: number) => `${ms(ns)} (${percent(ns, whole)})`;
    const times = `total ${amount(tree.total[node])}\nself ${amount(tree.self[node])}`;
    if (of < 0) return `all\n${times}`;
    const module = modules[functions.modules[of]];
    const origin = origins[functions.origins[of]];
    return `${functions.names[of]}\n${module ? `${module}, ${origin}` : origin}\n${times}`;
  }
}
