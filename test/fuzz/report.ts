// The report of a run: progress, figures, and a failure with everything needed to repeat it.

import type { Case, Failure, Progress, Run } from './fuzzer.ts'

/** A longer input is shown only at its start and end: the command recreates it. */
const shownBytesMax = 4096

/** Where a failing input came from, its content, and the command that repeats this case. */
export function failureText({ seed, case: one, property, error, input, shortest }: Failure): string {
  const { kind, ordinal } = one
  const lines = [
    `FAILED  ${property}`,
    `  kind     ${kind.name}, case ${ordinal}, seed ${seed}`,
    `  error    ${error.stack ?? error.message}`,
    ...(error.cause === undefined
      ? []
      : [`  cause    ${error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : JSON.stringify(error.cause)}`]),
    `  input    ${bytesText(input)}`,
    ...(shortest === undefined
      ? ['  It does not fail by itself, only after the cases before it: repeat the run with its seed, kinds and number of cases.']
      : [`  shortest ${bytesText(shortest)}`]),
    `  again    ${commandText(seed, one)}`,
  ]
  return lines.join('\n')
}

/** The command that repeats one case. */
export function commandText(seed: number, { kind, ordinal }: Case): string {
  return `npm run fuzz -- --seed ${seed} --kind ${kind.name} --case ${ordinal}`
}

export function bytesText(bytes: Uint8Array): string {
  const plain = /^[\x20-\x7e]*$/.test(Buffer.from(bytes.subarray(0, 200)).toString('latin1'))
  const text = plain
    ? `, as text ${JSON.stringify(Buffer.from(bytes.subarray(0, 200)).toString('latin1'))}${bytes.length > 200 ? '…' : ''}`
    : ''
  const base64 =
    bytes.length <= shownBytesMax
      ? Buffer.from(bytes).toString('base64')
      : `${Buffer.from(bytes.subarray(0, shownBytesMax / 2)).toString('base64')} … ${Buffer.from(bytes.subarray(-64)).toString('base64')}`
  return `${bytes.length} bytes${text}\n           base64 ${base64}`
}

/** Cases of each kind, in total, and per second. */
export function runText({ cases, elapsedMs }: Run, seed: number): string {
  const width = Math.max(...[...cases.keys()].map(name => name.length))
  const total = [...cases.values()].reduce((sum, count) => sum + count, 0)
  const lines = [...cases].map(([name, count]) => `  ${name.padEnd(width)} ${count.toLocaleString('en').padStart(10)}`)
  const perSecond = Math.round(total / Math.max(elapsedMs / 1000, 0.001))
  return `${lines.join('\n')}\nseed ${seed}: ${total} cases in ${(elapsedMs / 1000).toFixed(1)} s, ${perSecond.toLocaleString('en')}/s`
}

/** A progress bar for a terminal. @param share of the run that is done, 0 to 1 */
export function progressLine({ cases, elapsedMs }: Progress, share: number): string {
  const width = 30
  const done = Math.round(Math.min(share, 1) * width)
  const percent = `${Math.floor(Math.min(share, 1) * 100)} %`.padStart(5)
  return `[${'='.repeat(done)}${' '.repeat(width - done)}] ${percent}  ${cases.toLocaleString('en')} cases  ${Math.round(cases / (elapsedMs / 1000)).toLocaleString('en')}/s`
}
