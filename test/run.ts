// `npm test`: runs all checks, and prints one total on the last line.

import { parseArgs } from 'node:util'
import { runChecks } from './run/checks.ts'
import { add, type Count, emptyCount, resultOf } from './run/count.ts'
import { runTests } from './run/tests.ts'
import { beginPreparing, byBuilds, type Preparing } from './servers/install/prepare.ts'

const usage = `Usage: npm test [-- [options] [path …]]

Everything: types, lint, format, the quick tests, then the slow ones (whole processes).

  npm test                        everything
  npm test -- --quick             all but the slow tests
  npm test -- sinks/postgres      only the tests whose path holds this, quick and slow; no types, lint and format
  npm test -- --quick config      both
  npm test -- --write             updates the tables of the documents, and runs nothing

With CI=true a skipped test counts as failed.
`

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: { type: 'boolean' }, write: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help === true) return console.log(usage)
  if (values.write === true) {
    const { writeReadmes } = await import('./tidy/write-readme.ts')
    return console.log(await writeReadmes())
  }

  const startedMs = performance.now()
  let count: Count = emptyCount
  const preparing = values.quick === true || positionals.length > 0 ? undefined : beginPreparing()
  if (positionals.length === 0) count = add(count, await runChecks())
  // One after the other: the slow ones measure the whole machine.
  count = add(count, await runTests('quick', positionals))
  if (values.quick !== true) count = add(count, await runSlow(positionals, preparing))

  const { line, ok } = resultOf(count, process.env['CI'] === 'true')
  console.log(`\nin ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)
  console.log(line)
  process.exitCode = ok ? 0 : 1
}

/** While servers are built, tests that need none of them run first. */
async function runSlow(filters: readonly string[], preparing: Preparing | undefined): Promise<Count> {
  if (preparing === undefined || preparing.isOver()) return runTests('slow', filters)
  const { on, without } = byBuilds()
  const first = await runTests('slow', without)
  await preparing.over
  return add(first, await runTests('slow', on))
}

try {
  await main()
} catch (error) {
  const misuse = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  console.error(misuse ? `${(error as Error).message}\n\n${usage}` : error)
  process.exitCode = misuse ? 2 : 1
}
