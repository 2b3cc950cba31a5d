/** The timeline: a lane a thread, in the colours of what it did; a part of the time is chosen. */

import type { Lane, Lanes } from './answers';
import type { Colours } from './colours';
import { fitted } from './text';

const LANE = 14;
const GAP = 2;
const AXIS = 18;
/** Pixels for the names of threads. */
export const GUTTER = 170;
const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
/** Pixels below which the mouse was clicked and not dragged. */
const DRAG = 4;

/** What a person does with it. */
export interface TimelineListener {
  /** Microseconds since 1970; none for all of the time. */
  chosen(range: [number, number] | null): void;
  thread(thread: number): void;
  pointed(text: string, x: number, y: number): void;
}

/** A picture of lanes. */
export class Timeline {
  private readonly canvas = document.createElement('canvas');
  private readonly context: CanvasRenderingContext2D;
  private lanes: Lanes | null = null;
  private range: [number, number] | null = null;
  private dragged: [number, number] | null = null;
  private thread = -1;
  private pending = false;

  /** `origin` is the time that is 0, in microseconds since 1970. */
  constructor(
    private readonly place: HTMLElement,
    private readonly states: readonly string[],
    private readonly origin: number,
    private readonly colours: () => Colours,
    private readonly listener: TimelineListener,
  ) {
    this.context = this.canvas.getContext('2d') as CanvasRenderingContext2D;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', 'Timeline of the threads: drag to choose a part of the '
      + 'time, or type it above; Escape chooses all');
    place.append(this.canvas);
    new ResizeObserver(() => this.redraw()).observe(place);
    this.listen();
  }

  /** Slots that are worth asking for: one a pixel. */
  slots(): number {
    return Math.max(Math.min(this.place.clientWidth - GUTTER, 2000), 100);
  }

  show(lanes: Lanes): void {
    this.lanes = lanes;
    this.redraw();
  }

  /** Marks what is chosen: a time, and a thread or -1. */
  mark(range: [number, number] | null, thread: number): void {
    this.range = range;
    this.thread = thread;
    this.redraw();
  }

  redraw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  /** The pixel of a time, from the canvas's corner; for tests. */
  x(time: number): number {
    const { from, to } = this.lanes as Lanes;
    return GUTTER + ((time - from) / (to - from)) * this.width();
  }

  private width(): number {
    return Math.max(this.place.clientWidth - GUTTER, 1);
  }

  private time(x: number): number {
    const { from, to } = this.lanes as Lanes;
    const part = Math.min(Math.max((x - GUTTER) / this.width(), 0), 1);
    return Math.round(from + part * (to - from));
  }

  private draw(): void {
    const { lanes, canvas, context } = this;
    if (!lanes) return;
    const width = this.place.clientWidth;
    const height = AXIS + lanes.lanes.length * (LANE + GAP);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = 'middle';
    const colours = this.colours();
    context.fillStyle = colours.back;
    context.fillRect(0, 0, width, height);
    this.drawAxis(lanes, colours);
    lanes.lanes.forEach((lane, at) => {
      this.drawLane(lane, AXIS + at * (LANE + GAP), lanes.slots, colours);
    });
    const chosen = this.dragged ?? this.range;
    if (chosen) this.drawRange(chosen, height, colours);
  }

  private drawAxis(lanes: Lanes, colours: Colours): void {
    const { context } = this;
    const seconds = (lanes.to - lanes.from) / 1e6;
    const raw = seconds / Math.max(this.width() / 110, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? raw;
    const first = Math.ceil((lanes.from - this.origin) / 1e6 / step) * step;
    context.fillStyle = colours.text;
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    for (let at = first; at * 1e6 + this.origin <= lanes.to; at += step) {
      const x = this.x(at * 1e6 + this.origin);
      context.fillRect(x, AXIS - 4, 1, 4);
      context.fillText(`${at.toFixed(digits)} s`, x + 3, AXIS / 2);
    }
  }

  private drawLane(
    lane: Lane,
    top: number,
    slots: number,
    colours: Colours,
  ): void {
    const { context } = this;
    const isQuiet = this.thread >= 0 && this.thread !== lane.thread;
    context.globalAlpha = isQuiet ? 0.35 : 1;
    context.fillStyle = colours.text;
    const letters = Math.floor((GUTTER - 8) / context.measureText('e').width);
    context.fillText(fitted(lane.name, letters), 2, top + LANE / 2);
    const slot = this.width() / slots;
    let x = GUTTER;
    for (let at = 0; at + 1 < lane.runs.length; at += 2) {
      const width = lane.runs[at] * slot;
      const state = lane.runs[at + 1];
      if (state > 0) {
        context.fillStyle = colours.states[state - 1];
        context.fillRect(x, top, width, LANE);
      }
      x += width;
    }
    context.globalAlpha = 1;
  }

  private drawRange([from, to]: [number, number], height: number, colours: Colours): void {
    const { context } = this;
    const [left, right] = [this.x(from), this.x(to)].map(
      (x) => Math.min(Math.max(x, GUTTER), GUTTER + this.width()));
    context.fillStyle = colours.back;
    context.globalAlpha = 0.6;
    context.fillRect(GUTTER, AXIS, left - GUTTER, height - AXIS);
    context.fillRect(right, AXIS, GUTTER + this.width() - right, height - AXIS);
    context.globalAlpha = 1;
    context.strokeStyle = colours.focus;
    context.lineWidth = 2;
    context.strokeRect(left, 1, Math.max(right - left, 1), height - 2);
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.offsetX < GUTTER || event.button !== 0 || !this.lanes) return;
      canvas.setPointerCapture(event.pointerId);
      const begin = this.time(event.offsetX);
      this.dragged = [begin, begin];
    });
    canvas.addEventListener('pointermove', (event) => this.moved(event));
    canvas.addEventListener('pointerup', (event) => this.released(event));
    // The system has taken the pointer for something else, as for scrolling.
    canvas.addEventListener('pointercancel', () => {
      this.dragged = null;
      this.redraw();
    });
    canvas.addEventListener('pointerleave', () => this.listener.pointed('', 0, 0));
    canvas.addEventListener('dblclick', (event) => {
      if (event.offsetX >= GUTTER) this.listener.chosen(null);
    });
    canvas.addEventListener('click', (event) => {
      const lane = this.laneAt(event.offsetY);
      if (event.offsetX < GUTTER && lane) {
        this.listener.thread(lane.thread === this.thread ? -1 : lane.thread);
      }
    });
    canvas.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.listener.chosen(null);
    });
  }

  private moved(event: PointerEvent): void {
    if (!this.lanes) return;
    if (this.dragged) {
      this.dragged = [this.dragged[0], this.time(event.offsetX)];
      this.redraw();
      return;
    }
    this.listener.pointed(this.text(event.offsetX, event.offsetY), event.clientX, event.clientY);
  }

  private released(event: PointerEvent): void {
    const { dragged } = this;
    this.dragged = null;
    this.redraw();
    if (!dragged) return;
    const end = this.time(event.offsetX);
    const [from, to] = dragged[0] < end ? [dragged[0], end] : [end, dragged[0]];
    if (Math.abs(this.x(to) - this.x(from)) >= DRAG) this.listener.chosen([from, to]);
  }

  private laneAt(y: number): Lane | undefined {
    return this.lanes?.lanes[Math.floor((y - AXIS) / (LANE + GAP))];
  }

  /** What is at a place. */
  private text(x: number, y: number): string {
    const lane = this.laneAt(y);
    if (!lane || !this.lanes) return '';
    const { name } = lane;
    if (x < GUTTER) return name;
    const time = ((this.time(x) - this.origin) / 1e6).toFixed(3);
    let slot = ((x - GUTTER) / this.width()) * this.lanes.slots;
    for (let at = 0; at + 1 < lane.runs.length; at += 2) {
      slot -= lane.runs[at];
      if (slot > 0) continue;
      const state = lane.runs[at + 1];
      return `${name}\n${time} s: ${state > 0 ? `mostly ${this.states[state - 1]}` : 'nothing'}`;
    }
    return `${name}\n${time} s`;
  }
}
