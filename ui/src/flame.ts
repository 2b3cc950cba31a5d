/**
 * Draws a tree on a canvas: a box for each node as wide as what it counts, its children on it.
 *
 * Only what can be seen is laid out and drawn, so the cost of a picture is that of its boxes and
 * not that of the tree.
 */

import type { Colours } from './colours';
import { fitted } from './text';
import type { Tree } from './tree';

const ROW = 18;
const FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const PADDING = 3;
/** Pixels below which a box can't be told apart. */
const NARROW = 0.6;

/** Where the callers are. */
export type Direction = 'icicle' | 'flame';

/** What stands in the boxes. */
export interface Naming {
  name(of: number): string;
  /** Position in the colours. */
  origin(of: number): number;
}

/** What a person does with it. */
export interface Listener {
  zoomed(node: number): void;
  pointed(node: number, x: number, y: number): void;
  focused(node: number): void;
  chosen(node: number): void;
}

interface Box {
  node: number;
  row: number;
  x: number;
  width: number;
  /** What it stands for is too narrow to have boxes of its own. */
  isRest: boolean;
}

/** A picture of a tree. */
export class Flame {
  private readonly canvas = document.createElement('canvas');
  private readonly spacer = document.createElement('div');
  private readonly context: CanvasRenderingContext2D;
  private tree: Tree | null = null;
  private zoom = 0;
  private focus = -1;
  private marks: Uint8Array | null = null;
  private rows: Box[][] = [];
  /** The row of what is zoomed to. */
  private zoomRow = 0;
  private letter = 7;
  private pending = false;
  private onPaper = false;

  constructor(
    private readonly place: HTMLElement,
    private readonly naming: Naming,
    private readonly colours: (onPaper: boolean) => Colours,
    private readonly listener: Listener,
    private direction: Direction,
    label: string,
  ) {
    this.context = this.canvas.getContext('2d') as CanvasRenderingContext2D;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-roledescription', 'flame graph');
    this.canvas.setAttribute('aria-label', label);
    place.append(this.canvas, this.spacer);
    place.addEventListener('scroll', () => this.redraw());
    new ResizeObserver(() => this.layOut()).observe(place);
    this.listen();
  }

  /** Shows another tree, from its root or zoomed to a node of it. */
  show(tree: Tree, zoom = 0): void {
    this.tree = tree;
    this.zoom = zoom;
    this.focus = zoom > 0 ? zoom : -1;
    this.layOut();
    this.toRoot();
  }

  /** Shows what is above a node, and how it is reached. */
  zoomTo(node: number): void {
    this.zoom = node;
    this.focus = node;
    this.layOut();
    this.toRoot();
    this.listener.zoomed(node);
  }

  turn(direction: Direction): void {
    this.direction = direction;
    this.layOut();
    this.toRoot();
  }

  /** Marks functions that a search has found; none without one. */
  mark(marks: Uint8Array | null): void {
    this.marks = marks;
    this.redraw();
  }

  /** Puts all of it on paper, as wide as it is on the screen, or back. */
  print(onPaper: boolean): void {
    this.onPaper = onPaper;
    this.draw();
  }

  /** Draws in the next frame. */
  redraw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  /** The middle of a function's widest box, in the page; for tests. */
  whereIs(of: number): { x: number; y: number } | null {
    const boxes = this.rows.flat().filter(
      (box) => !box.isRest && this.tree?.functions[box.node] === of);
    const [widest] = boxes.sort((a, b) => b.width - a.width);
    if (!widest) return null;
    const corner = this.place.getBoundingClientRect();
    const y = corner.top + this.top(widest.row) + ROW / 2 - this.place.scrollTop;
    return { x: corner.left + widest.x + widest.width / 2 + 1, y: y + 1 };
  }

  private toRoot(): void {
    this.place.scrollTop = this.direction === 'flame' ? this.place.scrollHeight : 0;
    this.redraw();
  }

  private layOut(): void {
    const { tree } = this;
    if (!tree) return;
    const width = this.place.clientWidth;
    this.rows = [];
    const below = tree.path(this.zoom);
    below.forEach((node, row) => this.put({ node, row, x: 0, width, isRest: false }));
    this.zoomRow = below.length - 1;
    const scale = width / (tree.total[this.zoom] || 1);
    const open: Box[] = [{ node: this.zoom, row: this.zoomRow, x: 0, width, isRest: false }];
    for (let box = open.pop(); box; box = open.pop()) this.layChildren(box, scale, open);
    for (const row of this.rows) row.sort((a, b) => a.x - b.x);
    this.spacer.style.height = `${Math.max(this.height() - this.place.clientHeight, 0)}px`;
    this.redraw();
  }

  private layChildren(box: Box, scale: number, open: Box[]): void {
    const tree = this.tree as Tree;
    const row = box.row + 1;
    let { x } = box;
    // What lies on it in nodes that are not in the tree is there all the same.
    let missing = tree.total[box.node] - tree.self[box.node];
    let rest = 0;
    for (const node of tree.childrenOf(box.node)) {
      const width = tree.total[node] * scale;
      missing -= tree.total[node];
      if (width < NARROW) {
        // They are sorted: all that follow are narrow, too.
        rest += width;
        continue;
      }
      const child = { node, row, x, width, isRest: false };
      this.put(child);
      open.push(child);
      x += width;
    }
    rest += Math.max(missing, 0) * scale;
    if (rest >= NARROW) this.put({ node: box.node, row, x, width: rest, isRest: true });
  }

  private put(box: Box): void {
    (this.rows[box.row] ??= []).push(box);
  }

  private height(): number {
    return this.rows.length * ROW;
  }

  private top(row: number): number {
    if (this.direction === 'icicle') return row * ROW;
    // The root is at the bottom, also of a place that is higher than the picture.
    return Math.max(this.height(), this.place.clientHeight) - (row + 1) * ROW;
  }

  private draw(): void {
    if (!this.tree) return;
    const width = this.place.clientWidth;
    const height = this.onPaper ? this.height() : this.place.clientHeight;
    const ratio = this.onPaper ? 2 : window.devicePixelRatio || 1;
    const { canvas, context } = this;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = this.onPaper ? '100%' : `${width}px`;
    canvas.style.height = this.onPaper ? 'auto' : `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.letter = context.measureText('M').width;
    const colours = this.colours(this.onPaper);
    context.fillStyle = colours.back;
    context.fillRect(0, 0, width, height);
    const scrolled = this.onPaper ? this.paperTop() : this.place.scrollTop;
    for (let row = 0; row < this.rows.length; row++) {
      const top = this.top(row) - scrolled;
      if (top + ROW < 0 || top > height) continue;
      for (const box of this.rows[row]) this.drawBox(box, top, colours);
    }
  }

  /** How far the picture lies below the top of its place. */
  private paperTop(): number {
    return this.direction === 'icicle' ? 0 : this.top(this.rows.length - 1);
  }

  private drawBox(box: Box, top: number, colours: Colours): void {
    const { context } = this;
    const of = (this.tree as Tree).functions[box.node];
    const isMarked = this.marks !== null && of >= 0 && this.marks[of] === 1;
    const isBelow = box.row < this.zoomRow;
    context.globalAlpha = (this.marks && !isMarked) || isBelow ? 0.55 : 1;
    if (box.isRest) context.fillStyle = colours.narrow;
    else if (isMarked) context.fillStyle = colours.match;
    else context.fillStyle = colours.origins[of < 0 ? colours.origins.length - 1 : this.naming.origin(of)];
    context.fillRect(box.x, top, box.width, ROW - 1);
    if (box.width > 3) {
      context.fillStyle = colours.line;
      context.fillRect(box.x + box.width - 0.5, top, 0.5, ROW - 1);
    }
    context.globalAlpha = 1;
    if (box.isRest) return;
    const letters = Math.floor((box.width - 2 * PADDING) / this.letter);
    const text = letters < 3 ? '' : fitted(this.name(of), letters);
    if (text) {
      context.fillStyle = isMarked ? colours.matchText : colours.text;
      context.fillText(text, box.x + PADDING, top + ROW / 2);
    }
    if (box.node === this.focus && !this.onPaper) {
      context.strokeStyle = colours.focus;
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, top + 1, Math.max(box.width - 2, 1), ROW - 3);
    }
  }

  private name(of: number): string {
    return of < 0 ? 'all' : this.naming.name(of);
  }

  private at(event: MouseEvent): Box | null {
    const corner = this.canvas.getBoundingClientRect();
    const y = event.clientY - corner.top + this.place.scrollTop;
    const x = event.clientX - corner.left;
    const row = this.rows.findIndex((_, row) => y >= this.top(row) && y < this.top(row) + ROW);
    const boxes = row < 0 ? [] : this.rows[row];
    return boxes.find((box) => x >= box.x && x < box.x + box.width) ?? null;
  }

  private listen(): void {
    const { canvas, listener } = this;
    canvas.addEventListener('click', (event) => {
      const box = this.at(event);
      if (!box) return;
      if (event.shiftKey) listener.chosen(box.node);
      else this.zoomTo(box.node);
    });
    canvas.addEventListener('dblclick', () => this.zoomTo(0));
    canvas.addEventListener('mousemove', (event) => {
      const box = this.at(event);
      listener.pointed(box && !box.isRest ? box.node : -1, event.clientX, event.clientY);
    });
    canvas.addEventListener('mouseleave', () => listener.pointed(-1, 0, 0));
    canvas.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (this.key(event.key)) event.preventDefault();
    });
  }

  /** Whether the key means something here. */
  private key(key: string): boolean {
    const tree = this.tree as Tree;
    const node = this.focus < 0 ? this.zoom : this.focus;
    const towardsCallees = this.direction === 'icicle' ? 'ArrowDown' : 'ArrowUp';
    switch (key) {
      case 'ArrowUp':
      case 'ArrowDown':
        if (key === towardsCallees) this.focusOn(tree.childrenOf(node)[0] ?? node);
        else this.focusOn(Math.max(tree.parents[node], 0));
        return true;
      case 'ArrowLeft':
        this.focusOn(this.sibling(node, -1));
        return true;
      case 'ArrowRight':
        this.focusOn(this.sibling(node, 1));
        return true;
      case 'Enter':
      case ' ':
        this.zoomTo(node);
        return true;
      case 's':
        this.listener.chosen(node);
        return true;
      case 'Escape':
        this.zoomTo(0);
        return true;
      default:
        return false;
    }
  }

  private sibling(node: number, step: number): number {
    if (node === 0) return 0;
    const tree = this.tree as Tree;
    const siblings = tree.childrenOf(tree.parents[node]);
    return siblings[siblings.indexOf(node) + step] ?? node;
  }

  private focusOn(node: number): void {
    this.focus = node;
    const row = (this.tree as Tree).path(node).length - 1;
    const top = this.top(row);
    const { scrollTop, clientHeight } = this.place;
    if (top < scrollTop) this.place.scrollTop = top;
    if (top + ROW > scrollTop + clientHeight) this.place.scrollTop = top + ROW - clientHeight;
    this.listener.focused(node);
    this.redraw();
  }
}
