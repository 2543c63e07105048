// Which run this is: the gate shows each promise once; with --all the same is also shown in other combinations, for longer and under load.

/** True with `npm test -- --all`, and for files that are named on the command line. */
export const isDeep = process.env['TEST_DEPTH'] === 'all'

/** Defines tests that only run with `--all`. A file of which nothing else is left is called `*.deep.test.ts` instead. */
export function inDepth(define: () => void): void {
  if (isDeep) define()
}

/** The first cases of a table, which the gate shows; with `--all` every one. */
export function firstOf<Case>(cases: readonly Case[], count = 1): Case[] {
  return cases.slice(0, isDeep ? undefined : count)
}
