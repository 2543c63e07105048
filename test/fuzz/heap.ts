// Heap use of hostile input: how much is alive at a time while it is decoded, and how much is allocated in total.
//
// Runs in a separate process with a limited heap: `node <liveFlags> heap.ts live <seed> <bytes> <each>`, `node <allocatedFlags> heap.ts
// allocated …` or `… hold <bytes>`. It prints a line of JSON for each input. The live heap is measured when a refused payload's error is
// created, or when an accepted payload's last row is appended: then everything that the decode needs is alive, and everything else can be
// collected.

import { DecodeError } from '../../transformers/decode-error.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { origin } from '../transformers/json/rows.ts'
import { hostileInputs, openTransformers } from './hostile.ts'
import { envelope } from './properties/slate.ts'

const mebibyte = 2 ** 20

/** A heap that is just large enough for the process and the creation of inputs; more ends it. */
export const liveFlags: readonly string[] = ['--expose-gc', '--max-old-space-size=48', '--max-semi-space-size=1']
/** A young generation so large that nothing is collected during a decode. */
export const allocatedFlags: readonly string[] = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64']

export interface HeapLine {
  readonly name: string
  /** Size of the input. */
  readonly bytes: number
  /** The rule that refused it, or `taken`. */
  readonly outcome: string
  /** Bytes on the heap and in array buffers: the most alive at a time, or the total allocated. */
  readonly heap: number
  readonly buffers: number
}

/** How much an input may use while it is decoded. */
export function heapBytesOf(bytes: number): number {
  return 8 * bytes + mebibyte
}

interface Bytes {
  heap: number
  buffers: number
}

const collect = (globalThis as { gc?: () => void }).gc ?? (() => undefined)

function used(): Bytes {
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return { heap: heapUsed, buffers: arrayBuffers }
}

/** Called when an error is created or the last row is appended. */
let probe: () => void = () => undefined

/** From now on each DecodeError calls the probe when it is created, while all its callers are still running. */
function watchErrors(): void {
  class WatchedError extends Error {
    constructor(message?: string, options?: ErrorOptions) {
      super(message, options)
      probe()
    }
  }
  Object.setPrototypeOf(DecodeError, WatchedError)
}

function decode(transformer: Transformer, input: Uint8Array, batch: RecordBatch): string {
  batch.beginMessage(origin)
  try {
    transformer.decode(input, envelope, batch)
    return 'taken'
  } catch (error) {
    if (error instanceof DecodeError) return error.rule
    throw error
  }
}

/** A batch that calls the probe with its row number `rows`. */
function watchedBatch(rows: number): RecordBatch {
  const batch = new RecordBatch()
  let count = 0
  batch.appendRecord = (...row) => {
    RecordBatch.prototype.appendRecord.apply(batch, row)
    if (++count === rows) probe()
  }
  batch.appendDocument = (...row) => {
    RecordBatch.prototype.appendDocument.apply(batch, row)
    if (++count === rows) probe()
  }
  return batch
}

/** Collects all garbage. Twice, because unreferenced array buffers are released only by the next collection. */
function collectAll(): void {
  collect()
  collect()
}

/** The outcome of an input, and its number of rows. */
function outcomeOf(transformer: Transformer, input: Uint8Array): { outcome: string; rows: number } {
  const batch = new RecordBatch()
  const outcome = decode(transformer, input, batch)
  return { outcome, rows: outcome === 'taken' ? batch.rowCount : Number.NaN }
}

/** The most that a decode has alive at a time. Caches for later messages were filled before. */
function liveOf(transformer: Transformer, input: Uint8Array): Bytes & { outcome: string } {
  const { outcome, rows } = outcomeOf(transformer, input)
  const batch = watchedBatch(rows)
  collectAll()
  const before = used()
  const most: Bytes = { heap: 0, buffers: 0 }
  probe = () => {
    collectAll()
    const now = used()
    if (now.heap - before.heap + now.buffers - before.buffers < most.heap + most.buffers) return
    most.heap = now.heap - before.heap
    most.buffers = now.buffers - before.buffers
  }
  decode(transformer, input, batch)
  probe = () => undefined
  return { ...most, outcome }
}

/** Everything that a decode allocates, alive or not, after warm-up. */
function allocatedOf(transformer: Transformer, input: Uint8Array): Bytes & { outcome: string } {
  for (let turn = 0; turn < 10; turn++) decode(transformer, input, new RecordBatch())
  const batch = new RecordBatch()
  collectAll()
  const before = used()
  const outcome = decode(transformer, input, batch)
  const after = used()
  return { outcome, heap: after.heap - before.heap, buffers: Math.max(after.buffers - before.buffers, 0) }
}

/** To check the measurement: a transformer that holds this many bytes of small arrays when it refuses. */
function hoarder(bytes: number): Transformer {
  return {
    decode() {
      const held: unknown[] = []
      // Each takes 80 bytes: 32 for itself, 48 for its elements; and 8 in the array that holds it.
      for (let taken = 0; taken < bytes; taken += 88) held.push([taken, 1, 2, 3])
      const error = new DecodeError('hoard', `${held.length} are held`)
      held.push(error)
      throw error
    },
  }
}

function measureAll(measure: typeof liveOf, seed: number, bytes: number, each: number): void {
  const transformers = openTransformers()
  for (const { name, format, make } of hostileInputs(seed, bytes, each)) {
    const input = make()
    print({ name, bytes: input.length, ...measure(transformers[format], input) })
  }
}

function print(line: HeapLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

if (import.meta.main) {
  const what = process.argv[2]
  const [first = 0, bytes = 0, each = 0] = process.argv.slice(3).map(Number)
  if (what !== 'allocated') watchErrors()
  if (what === 'hold') print({ name: 'hoard', bytes: 0, ...liveOf(hoarder(first), new Uint8Array(0)) })
  else measureAll(what === 'live' ? liveOf : allocatedOf, first, bytes, each)
}
