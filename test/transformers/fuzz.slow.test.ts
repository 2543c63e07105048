// 200,000 hostile inputs with all properties. FUZZ_SEED=<seed> repeats a run; `npm run fuzz -- --help` says the rest.

import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const casesInAll = 210_000
/** One for each core of a small machine, with different seeds and so different inputs. */
const processes = 2

const seed = Number(process.env['FUZZ_SEED'] ?? randomInt(2 ** 31))

interface Ended {
  readonly code: number | null
  readonly output: string
}

async function fuzz(seed: number, cases: number): Promise<Ended> {
  const run = fileURLToPath(new URL('../fuzz/run.ts', import.meta.url))
  const child = spawn(process.execPath, [run, '--seed', String(seed), '--cases', String(cases)], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  return { code, output }
}

test(`the transformers keep their contract for ${casesInAll.toLocaleString('en')} hostile inputs (seed ${seed})`, async () => {
  console.log(`FUZZ_SEED=${seed}`)
  const runs = await Promise.all(Array.from({ length: processes }, (_, at) => fuzz(seed + at, casesInAll / processes)))
  let cases = 0
  for (const { code, output } of runs) {
    expect(code, output).toBe(0)
    const [line, count] = /^seed \d+: (\d+) cases in .*$/m.exec(output) ?? []
    console.log(line)
    cases += Number(count)
  }
  expect(cases).toBeGreaterThanOrEqual(200_000)
})
