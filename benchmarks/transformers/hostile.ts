// The cost of hostile input of 256 KiB: the time until it is answered, the answer, and the memory allocated for it.
//
// Several inputs of every kind in the fuzzer, and the most expensive known payloads. The worst of a kind counts, in a warm process; the very first
// decode takes longer, because nothing is compiled yet. Another test bounds the memory in use at the same time (test/transformers/heap.deep.test.ts).

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { allocatedFlags, type HeapLine } from '../../test/fuzz/heap.ts'
import { type Format, type Hostile, hostileInputs, openTransformers } from '../../test/fuzz/hostile.ts'
import { envelope } from '../../test/fuzz/properties/slate.ts'
import { origin } from '../../test/transformers/json/rows.ts'
import { DecodeError } from '../../transformers/decode-error.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { median } from '../median-time.ts'

const seed = 1
const bytes = 2 ** 18
/** Inputs of each kind, and decodes of each input. */
const each = 4
const turns = 7

/** Time limit for an answer. */
const answerMsMax = 20

interface Line {
  readonly name: string
  readonly medianMs: number
  readonly worstMs: number
  readonly answer: string
}

function decodeMs(transformer: Transformer, input: Uint8Array): { elapsedMs: number; answer: string } {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  const startedMs = performance.now()
  let answer: string
  try {
    transformer.decode(input, envelope, batch)
    answer = `${batch.rowCount} rows`
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    answer = error.rule
  }
  return { elapsedMs: performance.now() - startedMs, answer }
}

/** The input with the slowest median, among those of one name. */
function measure(inputs: readonly Hostile[], transformers: Readonly<Record<Format, Transformer>>): Line {
  const lines = inputs.map(({ name, format, make }): Line => {
    const input = make()
    const elapsed: number[] = []
    let answer = ''
    for (let turn = 0; turn < turns; turn++) {
      const one = decodeMs(transformers[format], input)
      elapsed.push(one.elapsedMs)
      answer = one.answer
    }
    return { name, medianMs: median(elapsed), worstMs: Math.max(...elapsed), answer }
  })
  return lines.reduce((worst, line) => (line.medianMs > worst.medianMs ? line : worst))
}

/** Bytes allocated for an input, in multiples of its size: the maximum for each name. Measured without garbage collection. */
async function allocated(): Promise<Map<string, number>> {
  const program = fileURLToPath(new URL('../../test/fuzz/heap.ts', import.meta.url))
  const flags = [...allocatedFlags, program, 'allocated', seed, bytes, each].map(String)
  const child = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  if (code !== 0) throw new Error(`the measurement of what is allocated ended with ${code}`)
  const most = new Map<string, number>()
  for (const text of output.trimEnd().split('\n')) {
    const { name, bytes, heap, buffers } = JSON.parse(text) as HeapLine
    // For a short input the engine's own allocations exceed those for its content.
    if (bytes > 4096) most.set(name, Math.max(most.get(name) ?? 0, (heap + buffers) / bytes))
  }
  return most
}

/** Prints a line for each kind, the slowest first. */
export async function bench(): Promise<void> {
  const multiples = await allocated()
  const byName = Map.groupBy(hostileInputs(seed, bytes, each), ({ name }) => name)
  const transformers = openTransformers()
  const lines = [...byName.values()].map(inputs => measure(inputs, transformers)).sort((a, b) => b.medianMs - a.medianMs)
  const width = Math.max(...lines.map(({ name }) => name.length))
  console.log(`${'256 KiB of'.padEnd(width)}  median ms  worst ms  at most  allocated  answer`)
  for (const { name, medianMs, worstMs, answer } of lines) {
    const multiple = multiples.get(name)
    console.log(
      `${name.padEnd(width)}${medianMs.toFixed(1).padStart(11)}${worstMs.toFixed(1).padStart(10)}${String(answerMsMax).padStart(9)}` +
        `${(multiple === undefined ? '' : `${multiple.toFixed(1)} x`).padStart(11)}  ${answer}`,
    )
  }
  const slow = lines.filter(({ medianMs }) => medianMs > answerMsMax)
  console.log(
    `\n${lines.length - slow.length} of ${lines.length} kinds are answered within ${answerMsMax} ms${slow.map(({ name }) => `\n  not: ${name}`).join('')}`,
  )
}

if (import.meta.main) await bench()
