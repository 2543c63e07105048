// How fast pages are serialised: `node benchmarks/readers/answers/record-json.ts`. One line for each kind of row, compared with
// JSON.stringify of an object for each row.

import { Bench } from 'tinybench'
import { pageBytes } from '../../../readers/answers/record-json.ts'
import type { DocumentRow, Row, SenmlRow } from '../../../readers/reader.ts'

const rowsPerPage = 1000
const origin = {
  channel: '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10',
  subtopic: 'floor.3.room',
  publisher: '7d5a2c1e-0000-4000-8000-000000000001',
  protocol: 'http',
  position: 1n,
  index: 0,
}

function record(nth: number): SenmlRow {
  return {
    kind: 'senml',
    ...origin,
    name: 'urn:dev:mac:0024befffe804ff1:temperature',
    unit: 'Cel',
    timeUs: 1_793_491_199_000_000 + nth * 1_234_567,
    value: 20 + nth / 100,
    stringValue: undefined,
    boolValue: undefined,
    dataValue: undefined,
    sum: undefined,
    updateTime: undefined,
  }
}

/** As in a channel of 500 things. */
function recordOfMany(nth: number): SenmlRow {
  return { ...record(nth), publisher: `7d5a2c1e-0000-4000-8000-${String((nth * 7919) % 500).padStart(12, '0')}` }
}

function document(payloadText: (nth: number) => string): (nth: number) => DocumentRow {
  return nth => ({ kind: 'document', ...origin, createdNs: 1_793_491_199_000_000_001n + BigInt(nth), payloadText: payloadText(nth) })
}

/** Keys in jsonb's order: shorter ones first. */
const small = document(
  nth => `{"id": ${nth}, "state": "running", "nested": {"list": [1, 2, 3], "serial": "sn-${nth}"}, "temperature": 21.5}`,
)
const long = document(nth => `{"id": ${8_659_456_789_564_231_564n + BigInt(nth)}, "state": "running", "temperature": 21.5}`)

function page(row: (nth: number) => Row): readonly Row[] {
  return Array.from({ length: rowsPerPage }, (_, nth) => row(nth))
}

const frame = { total: { total: rowsPerPage, isExact: true }, offset: 0, limit: rowsPerPage, format: 'messages' }
const bench = new Bench({ time: 700 })
const pages = {
  'SenML records': page(record),
  'SenML records of 500 things': page(recordOfMany),
  'small documents': page(small),
  'documents with a long integer': page(long),
}
for (const [name, rows] of Object.entries(pages)) bench.add(name, () => pageBytes(frame, rows))
bench.add('SenML records through an object each and JSON.stringify', () => JSON.stringify(pages['SenML records'].map(asObject)))
await bench.run()

for (const { name, result } of bench.tasks) {
  if (result.state !== 'completed') throw new Error(`${name} did not run`)
  const rowsPerSecond = Math.round(result.throughput.mean * rowsPerPage)
  console.log(`${name.padEnd(60)} ${rowsPerSecond.toLocaleString('en').padStart(12)} rows/s`)
}

function asObject(row: SenmlRow | DocumentRow): Record<string, unknown> {
  if (row.kind !== 'senml') throw new TypeError('only SenML is compared')
  return {
    Channel: row.channel,
    Subtopic: row.subtopic,
    Publisher: row.publisher,
    Protocol: row.protocol,
    Name: row.name,
    Unit: row.unit,
    Time: row.timeUs / 1e6,
    Value: row.value,
  }
}
