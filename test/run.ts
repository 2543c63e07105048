// `npm test`: runs the tests, runs failed files once more, and prints one result on the last line.

import { parseArgs } from 'node:util'
import { calibrate } from './run/calibration.ts'
import { runChecks } from './run/checks.ts'
import { type FileResult, resultOf, settle, summaryOf } from './run/results.ts'
import { type Standstill, stoodStill, watchStandstills } from './run/standstills.ts'
import { runTests } from './run/tests.ts'
import { beginPreparing, byBuilds, type Preparing, unbuiltServers } from './servers/install/prepare.ts'

const usage = `Usage: npm test [-- [options] [path …]]

The gate: types, lint, format, the quick tests, then the slow ones, which show each promise once on real servers and processes.

  npm test                        the gate: a quarter of an hour on two cores
  npm test -- --all               also what repeats it in other combinations, under load and for longer: half an hour
  npm test -- --quick             types, lint, format and the quick tests: 3 minutes
  npm test -- sinks/postgres      all tests whose path holds this; no types, lint and format
  npm test -- --quick config      both
  npm test -- --write             updates the tables of the documents, and runs nothing

A file that fails runs once more, alone, at the end; if it passes then, it is listed as flaky. With CI=true a skipped test counts as failed.
`

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { all: { type: 'boolean' }, quick: { type: 'boolean' }, write: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help === true) return console.log(usage)
  if (values.write === true) {
    const { writeReadmes } = await import('./tidy/write-readme.ts')
    return console.log(await writeReadmes())
  }

  const startedMs = performance.now()
  const calibrated = calibrate()
  const isCi = process.env['CI'] === 'true'
  const isNamed = positionals.length > 0
  const isQuick = values.quick === true
  const standstills = watchStandstills(seconds =>
    console.log(`\nthe machine stood still for ${seconds.toFixed(0)} s: what ran then runs again`),
  )

  // The workers of vitest inherit both.
  process.env['TEST_DEPTH'] = values.all === true || isNamed ? 'all' : 'gate'
  const builds = isCi || values.all === true || isNamed
  process.env['TEST_BUILDS'] = builds ? 'yes' : 'no'
  const unbuilt = builds || isQuick ? [] : unbuiltServers()
  if (unbuilt.length > 0) console.log(`left out: what needs ${unbuilt.join(', ')}; npm test -- --all builds them first\n`)

  const preparing = isQuick || isNamed || !builds ? undefined : beginPreparing()
  const first: FileResult[] = isNamed ? [] : await runChecks()
  console.log('\nquick tests')
  first.push(...(await runTests('quick*', positionals)))
  if (!isQuick) first.push(...(await runSlow(positionals, preparing)))
  const { results, flaky } = await runSomeAgain(first, standstills.seen)
  standstills.stop()

  console.log(summaryOf(results, flaky).join('\n'))
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0)
  console.log(`\nin ${seconds} s; a fixed hash took ${calibrated.toFixed(2)} s at the start and ${calibrate().toFixed(2)} s at the end`)
  const incomplete = results.filter(({ skipped }) => skipped > 0).map(({ path }) => path)
  if (unbuilt.length > 0) console.log(`left out for ${unbuilt.join(', ')} (npm test -- --all): ${incomplete.join(' ')}`)
  const { line, ok } = resultOf(results, flaky, isCi)
  console.log(line)
  process.exitCode = ok ? 0 : 1
}

/** While servers are built, tests that need none of them run first. */
async function runSlow(filters: readonly string[], preparing: Preparing | undefined): Promise<FileResult[]> {
  console.log('\nslow tests')
  if (preparing === undefined || preparing.isOver()) return runTests('slow*', filters)
  const { on, without } = byBuilds()
  const first = await runTests('slow*', without)
  await preparing.over
  return [...first, ...(await runTests('slow*', on))]
}

/** More failed files than this are not an accident, and running them again would take long. */
const runAgainMax = 10

/** What ran while the machine stood still counts as not yet run; after that, what failed may pass once more. Each file runs alone. */
async function runSomeAgain(first: readonly FileResult[], standstills: readonly Standstill[]) {
  const again = async (some: readonly FileResult[], why: string): Promise<FileResult[]> => {
    const results: FileResult[] = []
    for (const { path, project } of some) {
      console.log(`\nagain, because ${why}: ${path}`)
      let result: FileResult[]
      let times = 0
      do result = await runTests(project, [path])
      while (++times < 3 && result.some(one => stoodStill(one, standstills)))
      results.push(...result)
    }
    return results
  }
  const isFile = ({ path }: FileResult): boolean => path.endsWith('.ts')
  const undisturbed = settle(
    first,
    await again(
      first.filter(result => isFile(result) && stoodStill(result, standstills)),
      'the machine stood still',
    ),
  ).settled
  const failed = undisturbed.filter(result => isFile(result) && result.failed > 0)
  if (failed.length > runAgainMax) console.log(`\n${failed.length} files failed: none of them runs again`)
  const { settled, flaky } = settle(undisturbed, failed.length > runAgainMax ? [] : await again(failed, 'it failed'))
  return { results: settled, flaky }
}

try {
  await main()
} catch (error) {
  const misuse = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  console.error(misuse ? `${(error as Error).message}\n\n${usage}` : error)
  process.exitCode = misuse ? 2 : 1
}
