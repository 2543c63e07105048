// Hostile input in a process with a limited heap: a decode never has more than 8 times its input and 1 MiB alive.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type HeapLine, heapBytesOf, liveFlags } from '../fuzz/heap.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? 1)

async function measure(
  flags: readonly string[],
  ...words: (string | number)[]
): Promise<{ code: number | null; lines: HeapLine[]; fault: string }> {
  const program = fileURLToPath(new URL('../fuzz/heap.ts', import.meta.url))
  const child = spawn(process.execPath, [...flags, program, ...words.map(String)], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let fault = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (fault += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  const lines = output
    .split('\n')
    .filter(line => line.endsWith('}'))
    .map(line => JSON.parse(line) as HeapLine)
  return { code, lines, fault }
}

describe(`heap use of hostile input (seed ${seed})`, () => {
  test.each([
    [2 ** 18, 3],
    [60_000, 1],
  ])('of %i bytes: at most 8 times its size and 1 MiB', async (bytes, each) => {
    const { code, lines, fault } = await measure(liveFlags, 'live', seed, bytes, each)
    expect(code, `after ${lines.at(-1)?.name}, the heap of 48 MiB did not do: ${fault}`).toBe(0)
    expect(lines.length).toBeGreaterThan(150)
    const tooMuch = lines.filter(({ bytes, heap, buffers }) => heap + buffers > heapBytesOf(bytes))
    expect(
      tooMuch.map(
        line => `${line.name}, ${line.bytes} bytes: ${((line.heap + line.buffers) / line.bytes).toFixed(1)} times (${line.outcome})`,
      ),
    ).toEqual([])
    const most = lines.reduce((most, line) => (spare(line) < spare(most) ? line : most))
    console.log(`nearest to the bound: ${most.name}, ${most.bytes} bytes, ${(spare(most) / 2 ** 20).toFixed(2)} MiB below it`)
  })

  test('the limit ends a process that uses too much, and live memory is measured', async () => {
    const tooMuch = await measure(liveFlags, 'hold', 64 * 2 ** 20)
    expect(tooMuch.code).not.toBe(0)
    expect(tooMuch.fault).toContain('heap out of memory')
    const { lines } = await measure(liveFlags, 'hold', 3 * 2 ** 20)
    expect(lines[0]!.heap).toBeGreaterThan(3 * 2 ** 20)
    expect(lines[0]!.heap).toBeLessThan(3.5 * 2 ** 20)
  })
})

function spare({ bytes, heap, buffers }: HeapLine): number {
  return heapBytesOf(bytes) - heap - buffers
}
