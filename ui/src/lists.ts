/** The lists beside the graph: endpoints and requests, what changed, lines. */

import type { Diff, DiffRow, Endpoint, Line, Request, Requests } from './answers';
import { element } from './table';
import { ms, percent } from './text';

/** What a person does with the requests. */
export interface RequestListener {
  endpoint(endpoint: number): void;
  request(request: string): void;
}

function cell(text: string, isNumber = true): HTMLTableCellElement {
  const cell = document.createElement('td');
  if (isNumber) cell.className = 'number';
  cell.textContent = text;
  return cell;
}

function link(text: string, go: () => void): HTMLTableCellElement {
  const cell = document.createElement('td');
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = text;
  button.addEventListener('click', go);
  cell.append(button);
  return cell;
}

function row(isChosen: boolean, cells: HTMLTableCellElement[]): HTMLTableRowElement {
  const row = document.createElement('tr');
  row.classList.toggle('chosen', isChosen);
  row.append(...cells);
  return row;
}

/** Shows endpoints and requests, of which one each may be chosen. */
export function showRequests(
  told: Requests,
  isCpu: boolean,
  chosen: { endpoint: number; request: string },
  listener: RequestListener,
): void {
  const ns = (cost: Endpoint) => (isCpu ? cost.cpu_ns : cost.wall_ns);
  const whole = told.endpoints.reduce((sum, endpoint) => sum + (ns(endpoint) ?? 0), 0);
  element('endpoints').replaceChildren(...told.endpoints.map((endpoint) => {
    const each = (all: number | null) => (
      endpoint.requests > 0 && all !== null ? ms(all / endpoint.requests) : '–'
    );
    const own = ns(endpoint);
    const requests = endpoint.requests > 0 ? endpoint.requests.toFixed(0) : '–';
    const isChosen = endpoint.endpoint === chosen.endpoint;
    const go = () => listener.endpoint(isChosen ? -1 : endpoint.endpoint);
    const line = row(isChosen, [
      cell(own === null ? '–' : percent(own, whole)),
      cell(requests),
      cell(each(endpoint.cpu_ns)),
      cell(each(endpoint.elapsed_ns)),
      cell(each(endpoint.wall_ns)),
      link(endpoint.name, go),
    ]);
    line.dataset['cpu'] = String(endpoint.cpu_ns);
    line.dataset['wall'] = String(endpoint.wall_ns);
    line.dataset['requests'] = String(endpoint.requests);
    return line;
  }));
  element('spans').replaceChildren(...told.requests.map((request: Request) => {
    const isChosen = request.request === chosen.request;
    const go = () => listener.request(isChosen ? '' : request.request);
    const name = link(`${request.request} ${request.name}`, go);
    name.title = `trace ${request.trace}`;
    return row(isChosen, [cell(ms(request.cpu_ns)), cell(ms(request.wall_ns)), name]);
  }));
  const only = element('request-chosen');
  only.hidden = chosen.request === '';
  (only.querySelector('code') as HTMLElement).textContent = chosen.request;
}

/** Shows what changed; `choose` is called with a function's name and module. */
export function showDiff(diff: Diff, choose: (name: string, module: string) => void): void {
  const of = (row: DiffRow) => (diff.measure === 'share' ? row.share : row.ns_per_request);
  const number = (value: number) => (diff.measure === 'share' ? percent(value, 1) : us(value));
  const sure = diff.rows.filter((row) => row.is_significant && of(row));
  element('diff').replaceChildren(...sure.map((one) => {
    const change = of(one);
    if (!change) return row(false, []);
    const sign = change.change > 0 ? '+' : '';
    const cells = [
      cell(number(change.base)),
      cell(number(change.new)),
      cell(`${sign}${number(change.change)} ±${number(change.half_width)}`),
      link(one.name, () => choose(one.name, one.module)),
    ];
    cells[2].classList.add(change.change > 0 ? 'worse' : 'better');
    return row(false, cells);
  }));
  const each = diff.measure === 'share' ? 'of all time' : 'for each request';
  const rest = diff.rows.length - sure.length;
  const slower = sure.filter((row) => (of(row)?.change ?? 0) > 0).length;
  const counts = `${slower} slower, ${sure.length - slower} faster`;
  const nothing = diff.needs_runs
    ? 'This time is measured and not sampled: what of it is chance can only be told from several '
      + 'processes on each side. Of one, compare CPU time.'
    : `Nothing differs by more than chance explains, of ${rest} functions.`;
  element('verdict').textContent = sure.length > 0
    ? `Time ${each}: ${counts}; what got slower comes first. ${rest} others differ by no more than `
      + 'chance explains.'
    : nothing;
}

/** Shows the lines of a function with their own time. */
export function showLines(lines: Line[], whole: number): void {
  const known = lines.some((line) => line.line !== null);
  element('lines-title').hidden = !known;
  element('lines').replaceChildren(...(known ? lines : []).map((line) => {
    const item = document.createElement('li');
    const name = document.createElement('code');
    name.textContent = line.line ?? 'no line known';
    item.append(name, ` ${ms(line.ns)} (${percent(line.ns, whole)})`);
    return item;
  }));
}

/** A time of one request: `1,234.5 us`. */
function us(ns: number): string {
  return `${(ns / 1e3).toLocaleString('en', { maximumFractionDigits: 1 })} us`;
}
