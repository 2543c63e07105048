// What holds for every label: tsc asks for a line in `values` when there is a new one, and these tests say where it was forgotten.

import { Encoder } from 'cbor-x'
import { describe, expect, test, vi } from 'vitest'
import { resolvedText } from '../../../bin/resolved-text.ts'
import { publishSchema } from '../../../pipeline/ingest/schema.ts'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { openSenmlCbor } from '../../../transformers/senml/cbor/cbor.ts'
import { integerOfLabel } from '../../../transformers/senml/cbor/labels.ts'
import { baseLabels, Label, valueLabels } from '../../../transformers/senml/record.ts'
import { envelope, origin, outcomeOf, type Row, rowsOf, senmlJson } from './rows.ts'

type Name = keyof typeof Label
type Value = string | number | boolean

/** A value of each label that changes its row; a version changes none. */
const values = {
  bn: 'm:',
  bt: 1_600_000_000,
  bu: 'A',
  bv: 10,
  bs: 20,
  bver: 10,
  n: 'b',
  u: 'V',
  v: 2,
  vs: 'on',
  vb: true,
  vd: 'AQ',
  s: 3,
  t: -5,
  ut: 60,
} satisfies Record<Name, Value>
const names = Object.keys(values) as Name[]
const namesOfRecords = names.filter(name => (Label[name] & baseLabels) === 0)

function recordWith(name: Name, others: Readonly<Record<string, Value>> = {}): Record<string, Value> {
  return { n: 'a', ...((Label[name] & valueLabels) === 0 ? { v: 1 } : {}), ...others, [name]: values[name] }
}

const generic = new Encoder({ useRecords: false, mapsAsObjects: false, variableMapSize: true })
function cborOf(pack: readonly Record<string, Value>[]): Uint8Array {
  const plain = ([label, value]: [string, Value]): [string | number, unknown] => [
    integerOfLabel.get(label) ?? label,
    label === 'vd' ? Buffer.from(value as string, 'base64url') : value,
  ]
  return Uint8Array.from(generic.encode(pack.map(record => new Map(Object.entries(record).map(plain)))))
}

test.each(names)('%s is read by the fast path, and changes the row', name => {
  const parse = vi.spyOn(JSON, 'parse')
  const found = outcomeOf(Buffer.from(JSON.stringify([recordWith(name)])))
  expect(parse).not.toHaveBeenCalled()
  parse.mockRestore()
  const [without] = rowsOf('[{"n":"a","v":1}]')
  if (name === 'bver') expect(found).toEqual([without])
  else expect(found).not.toEqual([without])
})

test.each(names)('%s is read by the slow path, and from CBOR, as by the fast path', name => {
  const pack = [recordWith(name)]
  const [row] = rowsOf(JSON.stringify(pack))
  expect(outcomeOf(cborOf(pack), openSenmlCbor())).toEqual([row])
})

test.each(namesOfRecords)('%s stays with its record, wherever the pack has it in time', name => {
  const others = (at: number): Record<string, Value> => ({ n: `other${at}`, v: at, t: at })
  const own = name === 't' ? {} : { t: 0 }
  for (const records of [
    [recordWith(name, own), others(-9)],
    [recordWith(name, own), others(9)],
    [others(9), recordWith(name, own), others(-9)],
    [others(9), others(8), recordWith(name, own), others(-9)],
  ]) {
    const single = (record: Record<string, Value>, index: number): Row => ({ ...rowsOf(JSON.stringify([record]))[0]!, index })
    const expected = records.map(single).sort((one, other) => one.timeUs - other.timeUs)
    expect(rowsOf(JSON.stringify(records))).toEqual(expected)
  }
})

test.each(namesOfRecords)('%s of an earlier record is not that of a later one', name => {
  const rows = rowsOf(JSON.stringify([recordWith(name), { n: 'later', v: 1 }]))
  expect(rows.find(row => row.index === 1)).toEqual({ ...rowsOf('[{"n":"later","v":1}]')[0], index: 1 })
})

test.each(namesOfRecords)('%s is in the text of the resolved pack', name => {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  const pack = JSON.stringify([recordWith(name)])
  senmlJson.decode(Buffer.from(pack), envelope, batch)
  expect(rowsOf(resolvedText(batch.records, 10))).toEqual(rowsOf(pack))
})

describe('whoever reads which labels there are finds all of them', () => {
  const hintOf = (payload: Uint8Array, transformer = senmlJson): string => {
    const fault = outcomeOf(payload, transformer)
    if (!(fault instanceof DecodeError)) throw new Error('not refused')
    expect(fault.rule).toBe('record-labels')
    return fault.hint ?? ''
  }
  const listed = (text: string): string[] => names.filter(name => new RegExp(`\\b${name}\\b`).test(text))

  test('in the error for a record without any, of JSON and of CBOR', () => {
    expect(listed(hintOf(Buffer.from('[{"x":1}]')))).toEqual(names)
    expect(listed(hintOf(cborOf([{ x: 1 }]), openSenmlCbor()))).toEqual(names)
  })

  test('in the description of a publish', () => {
    const { contentSchema } = publishSchema.body.content['application/senml+json'].schema as unknown as {
      contentSchema: { items: { properties: object } }
    }
    expect(Object.keys(contentSchema.items.properties).sort()).toEqual(names.toSorted())
  })
})
