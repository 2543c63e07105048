// The fast decoder for plain packs: when it is used, and that it always agrees with the slow one.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test, vi } from 'vitest'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import { envelope, origin, outcomeOf } from './rows.ts'

test('a plain pack is decoded without JSON.parse, with every label', () => {
  const parse = vi.spyOn(JSON, 'parse')
  try {
    const pack =
      '[ {"bn":"m:","bt":1600000000.5,"bu":"A","bv":1,"bs":-2.5e1,"bver":10,"n":"a","u":"V","v":1,"s":3,"t":-1,"ut":0.1},\n{"n":"b","vs":"x y"},{"n":"c","vb":true},{"n":"d","vb":false},{"n":"e","vd":"AQ"}]'
    expect(outcomeOf(Buffer.from(pack))).toHaveLength(5)
    expect(parse).not.toHaveBeenCalled()
  } finally {
    parse.mockRestore()
  }
})

test('both decoders agree on every change of one byte of a plain pack', () => {
  const pack = Buffer.from('[{"bn":"a","v":-1.5e1},{"bver":10,"u":"V","vb":true},{"vd":"AQ","ut":0}]')
  const others = Array.from('[]{},:"\\-+.eE019 \nabnuvtsdrx_\0\x7f\x80', character => character.charCodeAt(0))
  const byteOrderMark = [0xef, 0xbb, 0xbf]
  for (let at = 0; at <= pack.length; at++) {
    const [before, after] = [pack.subarray(0, at), pack.subarray(at)]
    for (const changed of [
      [...before, ...after.subarray(1)],
      ...others.flatMap(other => [
        [...before, other, ...after],
        [...before, other, ...after.subarray(1)],
      ]),
    ]) {
      const short = outcomeOf(Uint8Array.from(changed))
      const long = outcomeOf(Uint8Array.from([...byteOrderMark, ...changed]))
      if (JSON.stringify(short) !== JSON.stringify(long)) expect.soft(short, Buffer.from(changed).toString()).toEqual(long)
    }
  }
})

const filler = 'x'.repeat(100_000)
const transformer = openSenmlJson()

function nameIn(pack: Uint8Array): string {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  transformer.decode(pack, envelope, batch)
  batch.endMessage()
  return batch.records.name[0]!
}

test.each<[what: string, pack: (nth: number) => Uint8Array<ArrayBuffer>]>([
  ['plain', nth => Buffer.from(`[{"n":"a-name-of-a-device-${nth}","vs":"${filler}"}]`)],
  ['longer than what is kept', nth => Buffer.from(`[{"n":"${'a'.repeat(80)}${nth}","vs":"${filler}"}]`)],
  ['escaped', nth => Buffer.from(`[{"n":"a-name-of-a-\\u0064evice-${nth}","vs":"${filler}"}]`)],
  ['with a base', nth => Buffer.from(`[{"bn":"a-base-of-a-device-${nth}-","n":"and-its-name","vs":"${filler}"}]`)],
])('texts of records that are %s keep no other bytes of their message', (_what, pack) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const names: string[] = []
  collect()
  const before = process.memoryUsage().heapUsed
  for (let nth = 0; nth < 200; nth++) names.push(nameIn(pack(nth)))
  collect()
  const after = process.memoryUsage().heapUsed
  expect(new Set(names).size).toBe(200)
  expect(after - before).toBeLessThan(200 * filler.length * 0.5)
})
