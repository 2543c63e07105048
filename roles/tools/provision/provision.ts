// `./sluice provision`: maps a fleet of devices on a running platform, each once, and writes a report from which an interrupted run resumes.

import { setTimeout as wait } from 'node:timers/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { ToolError, writeOutput } from '../../../bin/streams.ts'
import { openProgress } from '../progress.ts'
import { baseOf, isToken } from '../target/remote.ts'
import { plain, short } from '../text.ts'
import { type Device, readFleet } from './fleet.ts'
import { type FleetReport, type Outcome, openFleetReport, type ReportLine } from './fleet-report.ts'
import { type MappingTarget, namesOfKeysShownOnce, sendMapping } from './mapping.ts'

interface ProvisionFlags {
  readonly url: string
  readonly token?: string
  readonly concurrency: number
  readonly report?: string
  readonly withKeys: boolean
  readonly dryRun: boolean
}

const concurrencyDefault = 8
const concurrencyMax = 100
/** Failures shown on the terminal; the report has all of them. */
const shownMax = 20
const namesCharactersMax = 200

/** Makes `./sluice provision`. */
export function addCommands(command: Command): void {
  command
    .argument('<fleet>', 'a .csv, .json, .yaml or .yml file with external_id, external_key and optionally name')
    .option('--url <url>', 'address of the platform', 'http://127.0.0.1:8080')
    .addOption(
      new Option(
        '--token <token>',
        'token of a user, or an API key; not needed if the platform is configured with credentials for mappings',
      ).env('SVC_TOKEN'),
    )
    .option('--concurrency <n>', 'number of parallel requests', parseConcurrency, concurrencyDefault)
    .option('--report <file>', 'report with one line per device (default: <fleet>.report.csv next to the fleet file)')
    .option('--with-keys', 'include thing keys, certificates and private keys in the report', false)
    .option('--dry-run', 'let the platform check each mapping; create nothing', false)
    .description(
      'Provisions a fleet of devices: things, channels, connections and bootstrap configurations, according to the layout of the platform.',
    )
    .addHelpText(
      'after',
      `
A CSV file begins with a line of column names; a JSON or YAML file is a list of objects with the same names:

  external_id,external_key,name
  gw-0001,2f1c0f5e8a7d4b69,gateway of the roof

All rows are checked before the first is sent. The report has one line per device: created, present (the mapping already existed), valid
(in a dry run), conflict, refused or failed. It is written as devices are provisioned: after an interruption run the same command again,
and devices that are created or present in the report are skipped.

Private keys of things without a bootstrap configuration are returned only once, when a mapping is created: use --with-keys to keep them.

Exit code 0: all devices are provisioned. 1: some are not, for the reasons in the report, or the file or the platform could not be used.

Examples:
  ./sluice provision fleet.csv --token "$TOKEN"
  SVC_TOKEN=sluice_… ./sluice provision fleet.yaml --url https://platform.example --concurrency 32
  ./sluice provision fleet.json --dry-run
  ./sluice provision fleet.csv --with-keys --report keys.csv
`,
    )
    .action(async (file: string, flags: ProvisionFlags) => {
      const base = baseOf(flags.url)
      if (flags.token !== undefined && !isToken(flags.token))
        throw new ToolError('--token is not a token: give the text returned by POST /tokens or POST /keys')
      const fleet = await readFleet(file)
      const path = flags.report ?? `${file.replace(/\.\w+$/, '')}.report.csv`
      const report = await openFleetReport(path, { platform: base, withKeys: flags.withKeys })
      const progress = openProgress('devices')
      try {
        const target: MappingTarget = { base, token: flags.token, dryRun: flags.dryRun, wait: ms => wait(ms) }
        const names = short((await namesOfKeysShownOnce(target)).join(', '), namesCharactersMax)
        if (names !== '' && !flags.withKeys)
          console.error(
            `warning: the private keys of ${names} are shown once and not stored: use --with-keys to include them in the report`,
          )
        const keysWanted = flags.withKeys && !flags.dryRun ? names : ''
        const result = await provisionFleet({
          fleet,
          report,
          target,
          keysWanted,
          concurrency: flags.concurrency,
          onProgress: progress.show,
        })
        progress.end()
        for (const { line, externalId, outcome, error = '' } of result.failures.slice(0, shownMax)) {
          console.error(`${file}:${line}: ${plain(externalId)}: ${outcome}: ${error}`)
        }
        await writeOutput(summary(result, fleet.length, path))
        if (result.failures.length > 0) process.exitCode = 1
      } finally {
        progress.end()
        await report.close()
      }
    })
}

export interface FleetResult {
  readonly counts: ReadonlyMap<Outcome | 'skipped', number>
  readonly failures: readonly (ReportLine & { readonly line: number })[]
}

/**
 * Maps the devices that are not yet done in the report, several in parallel; each is reported durably before it counts. A dry run checks all devices.
 *
 * @throws ToolError for an error that concerns the whole fleet, after running mappings are finished and reported
 */
export async function provisionFleet({
  fleet,
  report,
  target,
  keysWanted = '',
  concurrency,
  onProgress = () => undefined,
}: {
  readonly fleet: readonly Device[]
  readonly report: FleetReport
  readonly target: MappingTarget
  /** Names of things whose private keys should be in the report. An existing mapping then counts as a failure, because it does not show them again. */
  readonly keysWanted?: string
  readonly concurrency: number
  readonly onProgress?: (done: number, total: number) => void
}): Promise<FleetResult> {
  const counts = new Map<Outcome | 'skipped', number>()
  const failures: FleetResult['failures'][number][] = []
  const rows = fleet.values()
  let done = 0
  let isStopped = false
  const count = (outcome: Outcome | 'skipped'): void => {
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    onProgress(++done, fleet.length)
  }

  async function work(): Promise<void> {
    for (const device of rows) {
      if (!target.dryRun && report.done.has(device.externalId)) count('skipped')
      else {
        const sent = await sendMapping(target, device)
        const lacksKeys = keysWanted !== '' && sent.outcome === 'present'
        const line = lacksKeys
          ? {
              ...sent,
              error: `it already existed, and the private keys of ${keysWanted} were shown when it was created: renew their certificates`,
            }
          : sent
        await report.append(line)
        if (lacksKeys || (line.outcome !== 'created' && line.outcome !== 'present' && line.outcome !== 'valid'))
          failures.push({ ...line, line: device.line })
        count(line.outcome)
      }
      if (isStopped) return
    }
  }

  const ended = await Promise.allSettled(
    Array.from({ length: concurrency }, () =>
      work().catch((error: unknown) => {
        isStopped = true
        throw error
      }),
    ),
  )
  for (const one of ended) if (one.status === 'rejected') throw one.reason
  return { counts, failures: failures.sort((left, right) => left.line - right.line) }
}

const words: Readonly<Record<Outcome | 'skipped', string>> = {
  created: 'created',
  present: 'already present',
  valid: 'valid',
  skipped: 'done before',
  conflict: 'in conflict',
  refused: 'refused',
  failed: 'failed',
}

function summary({ counts, failures }: FleetResult, total: number, path: string): string {
  const parts = Object.entries(words).flatMap(([outcome, word]) => {
    const count = counts.get(outcome as Outcome)
    return count === undefined ? [] : [`${count} ${word}`]
  })
  const more = failures.length > shownMax ? `${failures.length - shownMax} more failures are in the report\n` : ''
  return `${more}${total} ${total === 1 ? 'device' : 'devices'}: ${parts.join(', ')}; report: ${path}\n`
}

function parseConcurrency(text: string): number {
  const value = Number(text)
  if (!/^\d{1,3}$/.test(text) || value < 1 || value > concurrencyMax)
    throw new InvalidArgumentError(`Give a whole number from 1 to ${concurrencyMax}.`)
  return value
}
