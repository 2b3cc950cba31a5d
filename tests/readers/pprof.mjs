// Reads pprof files by pprof-format, and prints the sums of innermost functions by type of value.
//
//   node pprof.mjs FILE...

import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';

const { Profile } = await import(process.env.PPROF_FORMAT);
const sums = {};

for (const file of process.argv.slice(2)) {
  const profile = Profile.decode(gunzipSync(await readFile(file)));
  const text = (at) => {
    const found = profile.stringTable.strings[Number(at)];
    if (found === undefined) throw new Error(`${file}: no text ${at}`);
    return found;
  };
  const byId = (list) => new Map(list.map((one) => [Number(one.id), one]));
  const [locations, functions] = [byId(profile.location), byId(profile.function)];
  const leaf = (sample) => {
    if (sample.locationId.length === 0) return '';
    for (const id of sample.locationId) {
      if (!locations.has(Number(id))) throw new Error(`${file}: no location ${id}`);
    }
    const [line] = locations.get(Number(sample.locationId[0])).line;
    return text(functions.get(Number(line.functionId)).name);
  };
  const types = profile.sampleType.map((type) => text(type.type));
  for (const sample of profile.sample) {
    const name = leaf(sample);
    types.forEach((type, at) => {
      sums[type] ??= {};
      const value = Number(sample.value[at]);
      if (value !== 0) sums[type][name] = (sums[type][name] ?? 0) + value;
    });
    sample.label.forEach((label) => text(label.key) && text(label.str));
  }
}

console.log(JSON.stringify(sums));
