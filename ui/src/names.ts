/** What the numbers of functions mean. */

/** The names of functions, their modules, and whose code they are. */
export interface Names {
  functions: { names: string[]; modules: number[]; origins: number[] };
  modules: string[];
  origins: string[];
}
