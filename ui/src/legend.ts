/** What colours mean. */

/** Puts names with their colours into a list. */
export function showLegend(list: HTMLElement, names: readonly string[], of: readonly string[]): void {
  const items = names.map((name, at) => {
    const item = document.createElement('li');
    const colour = document.createElement('span');
    colour.style.background = of[at];
    item.append(colour, name);
    return item;
  });
  list.replaceChildren(...items);
}
