/** The graph of everything, and those of a function's callers and callees. */

import { colours } from './colours';
import { type Direction, Flame, type Listener, type Naming } from './flame';
import { element } from './table';
import type { Tip } from './tip';
import { Tree } from './tree';

export const EMPTY = new Tree(Int32Array.of(-1), Int32Array.of(-1), Float64Array.of(0));

/** What a person does with them. */
export interface GraphsListener {
  /** A node of the graph of everything is zoomed to. */
  zoomed(node: number): void;
  /** The callers and callees of a function are wanted. */
  chosen(of: number): void;
}

export class Graphs {
  /** By the place in the page; for tests, too. */
  readonly trees = new Map<string, Tree>();
  private readonly all: Flame;
  private readonly callers: Flame;
  private readonly callees: Flame;

  /** `whole` tells all nanoseconds. */
  constructor(
    private readonly naming: Naming,
    private readonly tip: Tip,
    private readonly whole: () => number,
    private readonly listener: GraphsListener,
  ) {
    this.all = this.flame('flame', 'icicle', 'Flame graph: arrows go to callers, callees and '
      + 'neighbours, Enter zooms, s shows callers and callees, Escape shows all');
    this.callers = this.flame('callers', 'flame', 'Callers of the chosen function');
    this.callees = this.flame('callees', 'icicle', 'Callees of the chosen function');
  }

  private flame(id: string, direction: Direction, label: string): Flame {
    const treeOf = () => this.trees.get(id) ?? EMPTY;
    const listener: Listener = {
      zoomed: (node) => {
        this.tip.tell(treeOf(), node, this.whole());
        if (id === 'flame') this.listener.zoomed(node);
      },
      pointed: (node, x, y) => this.tip.point(treeOf(), node, this.whole(), x, y),
      focused: (node) => this.tip.tell(treeOf(), node, this.whole()),
      chosen: (node) => this.listener.chosen(treeOf().functions[node]),
    };
    return new Flame(element(id), this.naming, colours, listener, direction, label);
  }

  private each(): Flame[] {
    return [this.all, this.callers, this.callees];
  }

  /** Shows a tree of everything, zoomed to a node. */
  show(tree: Tree, zoom = 0): void {
    this.trees.set('flame', tree);
    this.all.show(tree, zoom);
  }

  showSides(callers: Tree, callees: Tree): void {
    this.trees.set('callers', callers).set('callees', callees);
    this.callers.show(callers);
    this.callees.show(callees);
  }

  zoomTo(node: number): void {
    this.all.zoomTo(node);
  }

  turn(direction: Direction): void {
    this.all.turn(direction);
  }

  /** Marks functions; none without marks. */
  mark(marks: Uint8Array | null): void {
    for (const flame of this.each()) flame.mark(marks);
  }

  redraw(): void {
    for (const flame of this.each()) flame.redraw();
  }

  print(onPaper: boolean): void {
    for (const flame of this.each()) flame.print(onPaper);
  }

  /** The middle of a function's widest box, in the page; for tests. */
  whereIs(of: number): { x: number; y: number } | null {
    return this.all.whereIs(of);
  }
}
