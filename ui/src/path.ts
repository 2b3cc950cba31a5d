/** How one came to what is zoomed to. */

import type { Tree } from './tree';

const STEPS_MAX = 7;

/** Puts the way to a node into a place, each step a button that leads there. */
export function showPath(
  place: HTMLElement,
  tree: Tree,
  node: number,
  name: (of: number) => string,
  go: (node: number) => void,
): void {
  const steps = tree.path(node).map((step) => {
    const button = document.createElement('button');
    button.type = 'button';
    const of = tree.functions[step];
    button.textContent = of < 0 ? 'all' : name(of);
    button.addEventListener('click', () => go(step));
    return button;
  });
  // A deep stack would fill the page: its beginning and its end say enough.
  const isLong = steps.length > STEPS_MAX;
  const shown: (Node | string)[] = isLong ? [steps[0], '…', ...steps.slice(-5)] : steps;
  place.replaceChildren(...shown.flatMap((step, at) => (at > 0 ? [' › ', step] : [step])));
}
