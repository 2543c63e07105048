// Flattening a document, and unflattening a point, compared with JSON.parse of the same bytes.
//
// Both are measured in turns in one process, each turn over many documents with different numbers. The ratio is what counts.

import { type Fields, flatten } from '../../transformers/json/flatten.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import type { JsonObject } from '../../transformers/record-batch.ts'
import { callNs, median } from '../median-time.ts'

const turns = 41
const turnMs = 8
const documents = 500

interface Case {
  readonly name: string
  readonly document: (ordinal: number) => JsonObject
}

const cases: readonly Case[] = [
  { name: '4 fields, flat', document: ordinal => ({ temperature: 20 + ordinal / 10, humidity: 61, state: 'running', open: false }) },
  {
    name: '12 fields, two levels',
    document: ordinal => ({
      device: { serial: `sn-${ordinal}`, firmware: '2.4.1', uptime: ordinal },
      power: { l1: 230.1 + ordinal / 100, l2: 229.8, l3: 231.2, total: 7431 },
      climate: { temperature: 21.5, humidity: 61, pressure: 101_325 },
      state: 'running',
      alarm: false,
    }),
  },
  {
    name: '27 fields, four levels',
    document: ordinal => {
      const sensors = (level: number): JsonObject =>
        Object.fromEntries(['a', 'b', 'c'].map(key => [key, level === 0 ? ordinal / 7 : sensors(level - 1)]))
      return { site: sensors(2) }
    },
  },
  { name: '3 fields, one an array', document: ordinal => ({ id: ordinal, state: 'on', samples: [1.5, 2.5, 3.5, 4.5, 5.5, ordinal] }) },
]

/** Prints a line for each kind of document. */
export async function bench(): Promise<void> {
  let kept: unknown
  console.log('flatten, medians          parse ns  flatten ns   ratio   unflatten ns   ratio')
  for (const { name, document } of cases) {
    const texts = Array.from({ length: documents }, (_, ordinal) => JSON.stringify(document(ordinal)))
    const parsed = texts.map(text => JSON.parse(text) as JsonObject)
    const flat: Fields[] = parsed.map(document => flatten(document))
    const [parse, flattened, unflattened]: [number[], number[], number[]] = [[], [], []]
    for (let turn = 0; turn < turns; turn++) {
      parse.push(callNs(text => (kept = JSON.parse(text)), texts, turnMs))
      flattened.push(callNs(document => (kept = flatten(document)), parsed, turnMs))
      unflattened.push(callNs(fields => (kept = unflatten(fields)), flat, turnMs))
    }
    const [parseNs, flattenNs, unflattenNs] = [median(parse), median(flattened), median(unflattened)]
    console.log(
      `${name.padEnd(24)}${parseNs.toFixed(0).padStart(10)}${flattenNs.toFixed(0).padStart(12)}${(flattenNs / parseNs).toFixed(2).padStart(8)}` +
        `${unflattenNs.toFixed(0).padStart(15)}${(unflattenNs / parseNs).toFixed(2).padStart(8)}`,
    )
  }
  if (kept === undefined) throw new Error('nothing was made')
}

if (import.meta.main) await bench()
