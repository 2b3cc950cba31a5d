/** Colours by whose code it is; in the order of `Origin` of the command line. */

/** The colours of a theme. */
export interface Colours {
  origins: readonly string[];
  /** By what threads do; in the order of `ThreadState` of the agent. */
  states: readonly string[];
  text: string;
  back: string;
  line: string;
  /** What a search has found. */
  match: string;
  matchText: string;
  /** What is too narrow to be told apart. */
  narrow: string;
  focus: string;
}

const LIGHT: Colours = {
  origins: ['#8ccf8f', '#9cc9ea', '#cdb8e8', '#f7c087', '#f2a0a0', '#d2d2d2'],
  states: ['#3f9b46', '#d9a400', '#e3e3e3', '#d13438', '#4a90d9', '#cfd6dd', '#a83fa8', '#6f5bb5'],
  text: '#111111',
  back: '#ffffff',
  line: '#ffffff',
  match: '#b5179e',
  matchText: '#ffffff',
  narrow: '#e6e6e6',
  focus: '#0b57d0',
};

const DARK: Colours = {
  origins: ['#2f6b3d', '#2a577a', '#594683', '#79521f', '#8a3535', '#4a4d52'],
  states: ['#4caf50', '#e0b020', '#3a3e45', '#e5534b', '#5a9bd8', '#47515c', '#d070d0', '#9a86e0'],
  text: '#f5f5f5',
  back: '#16181c',
  line: '#16181c',
  match: '#ff8ae2',
  matchText: '#111111',
  narrow: '#2a2d33',
  focus: '#8ab4f8',
};

const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** The colours of this moment; paper is white. */
export function colours(onPaper: boolean): Colours {
  return dark.matches && !onPaper ? DARK : LIGHT;
}

/** Calls back when the theme changes. */
export function onThemeChange(callback: () => void): void {
  dark.addEventListener('change', callback);
}
