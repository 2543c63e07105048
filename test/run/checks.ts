// Types, lint and format: one command each, counted as one test each.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { FileResult } from './results.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Check {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  /** What to do when it fails. */
  readonly advice: string
}

const checks: readonly Check[] = [
  // Caches its results for unchanged files: a sixth of the time.
  {
    name: 'types',
    command: ['tsc', '--noEmit', '--incremental', '--tsBuildInfoFile', 'node_modules/.cache/types.tsbuildinfo'],
    advice: 'mend the types',
  },
  // Of browsers: the DOM, and no Node.
  { name: 'types of the console', command: ['tsc', '--noEmit', '-p', 'console/page'], advice: 'mend the types' },
  { name: 'lint', command: ['oxlint', '--type-aware'], advice: 'mend what is named; oxlint --fix does some of it' },
  { name: 'format', command: ['biome', 'check', '.'], advice: 'run npm run format' },
]

/** Runs all in parallel, and prints the output of those that fail. */
export function runChecks(): Promise<FileResult[]> {
  return Promise.all(checks.map(runCheck))
}

async function runCheck({ name, command: [program, ...flags], advice }: Check): Promise<FileResult> {
  const startMs = performance.now()
  const child = spawn(`${root}node_modules/.bin/${program}`, flags, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk))
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  const endMs = performance.now()
  const failures = code === 0 ? [] : [`${name}: ${advice}\n${Buffer.concat(output).toString().trimEnd()}`]
  console.log(`${name} ${code === 0 ? 'ok' : 'failed'} (${((endMs - startMs) / 1000).toFixed(1)} s)`)
  for (const failure of failures) console.log(failure)
  const failed = failures.length
  return { path: name, project: 'checks', passed: 1 - failed, failed, skipped: 0, failures, startMs, endMs }
}
