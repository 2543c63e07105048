// `./sluice bench`: sends a load that can be repeated, and compares a store with what was acknowledged of it.

import { type Command, InvalidArgumentError, Option } from 'commander'
import { ToolError, writeOutput } from '../../../bin/streams.ts'
import { stopOnSignals } from '../../../config/signals.ts'
import { type StoreName, storeNamesText } from '../../stores/store.ts'
import { answered, answering } from '../failure.ts'
import { addConnectionOptions, type ConnectionFlags } from '../kafkajs.ts'
import { openProgress } from '../progress.ts'
import { type Sources, storeNamed, type TargetFlags } from '../target/flags.ts'
import type { Target } from '../target/target.ts'
import { jsonLine } from '../text.ts'
import type { CheckReport, CheckTarget } from './check.ts'
import type { Destination, LoadReport } from './load.ts'
import type { LoadPlan } from './messages.ts'

interface LoadFlags extends ConnectionFlags {
  readonly ledger: string
  readonly messages: number
  readonly seed: number
  readonly devices: number
  readonly channels: number
  readonly mix: string
  readonly invalid: number
  readonly interval: number
  readonly rate?: number
  readonly to?: string
  readonly url?: string
  readonly token?: string
  readonly json?: boolean
}

interface CheckFlags extends Pick<TargetFlags, 'writer' | 'config'> {
  readonly data?: string
  readonly ledger: string
  readonly json?: boolean
}

/** Longer than an append may take. */
const stopMsMax = 30_000
const ledgerText = 'the file of what was acknowledged'
/** Entries of trucks that are missing take time as well, so their times run ahead by about an eighth. */
const spanShare = 1.2

/** Adds `./sluice bench`. */
export function addCommands(bench: Command, sources: Sources): void {
  bench.description('Sends a load that can be repeated, and compares a store with what was acknowledged of it.')

  answering(addConnectionOptions(bench.command('load')))
    .requiredOption('--ledger <file>', `${ledgerText}: it is created`)
    .option('--to <url>', 'publish as devices instead: to ingest at http://…, or over MQTT with QoS 1 to mqtt://…')
    .option('--url <url>', 'address of the control plane, which creates the things (default: --to)')
    .addOption(new Option('--token <token>', 'token of the user who will own the things, for --to').env('SVC_TOKEN'))
    .option('--messages <n>', 'how many messages', parseCount, 100_000)
    .option('--rate <n>', 'messages per second, each at its time (default: as fast as they are acknowledged)', parsePositive)
    .option('--mix <kinds>', 'kinds of messages, with their weights', 'record-senml')
    .option('--devices <n>', 'how many devices send', parseCount, 1000)
    .option('--channels <n>', 'how many channels they send to', parseCount, 100)
    .addOption(new Option('--invalid <percent>', 'percent of the messages that cannot be decoded').argParser(parsePercent).default(0, '0%'))
    .option('--interval <seconds>', 'seconds from a message of a device to its next, in their times, without --rate', parsePositive, 10)
    .option('--seed <n>', 'with the same seed and options the messages have the same values', parseCount, 1)
    .option('--json', 'print a JSON object')
    .description('Sends messages with known contents, and writes a ledger of those that were acknowledged.')
    .addHelpText(
      'after',
      `
Brokers and topic are set by the options of a writer (SVC_LOG_BROKERS, SVC_LOG_TOPIC …); a topic that is missing is created.

With --to the load creates --channels channels and --devices things on the platform, which stay, and publishes with their keys. Their owner
should not be a user who registered themselves, whose things have limits.

Kinds of messages are <shape>-<encoding>, for example --mix record-senml=70,pack-cbor=20,truck-json=10:

  record   one value
  pack     twelve values
  truck    readings (7 values) or diagnostics (3) of the use case iot of TSBS: some are missing, late, or lack a value
  -senml   SenML JSON
  -cbor    SenML CBOR
  -json    a JSON document with all values

Without --rate the times of the messages are in the past. With it they are those at which the messages are to be sent, also if the load falls
behind; what is late is counted. Nothing is sent again, and a message that is not acknowledged may or may not be stored.

Exit code 0: all messages are acknowledged. 1: some are not. 2: the load failed, for example because of an option or the topic.

Examples:
  SVC_LOG_BROKERS=kafka:9092 ./sluice bench load --ledger load.ledger --messages 1000000
  ./sluice bench load --ledger load.ledger --messages 600000 --rate 2000 --mix record-senml=80,pack-senml=20 --invalid 1%
  ./sluice bench load --ledger trucks.ledger --mix truck-senml --devices 4000 --channels 4
  SVC_TOKEN=… ./sluice bench load --ledger load.ledger --to http://127.0.0.1:8080 --devices 100 --channels 10
  SVC_TOKEN=… ./sluice bench load --ledger load.ledger --to mqtt://127.0.0.1:1883 --url http://127.0.0.1:8080 --rate 500
`,
    )
    .action((flags: LoadFlags) => answered(() => load(flags, sources)))

  answering(bench.command('check'))
    .argument('<store>', storeNamesText)
    .option('--writer <name>', "the writer's name (default: the writer that owns the store)")
    .option('--config <file>', "the writer's TOML file (default: the path in SVC_<STORE>_WRITER_CONFIG_PATH)")
    .option('--data <folder>', 'the data folder of a stopped `./sluice up`; --config is then its file')
    .requiredOption('--ledger <file>', ledgerText)
    .option('--json', 'print a JSON object')
    .description('Compares a store with the ledger of a load: which rows are missing, and which are stored more than once.')
    .addHelpText(
      'after',
      `
Makes the messages of the load again, and looks for each of their rows in the store, by all its columns except the time of receipt. A message
that was acknowledged must have all its rows there, once, or be a dead letter. One that was not may be stored, once. Run it when the writer has
stored everything, with the options of the writer. It only reads, and takes nine bytes of memory for each row of the load. The store of
\`./sluice up\` is open to that process only while it runs: stop it, and give its folder with --data.

Exit code 0: nothing is lost, and nothing doubled. 1: something is. 2: the comparison failed, for example because the store is unavailable.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… ./sluice bench check relational --ledger load.ledger
  ./sluice bench check document --ledger load.ledger --json | jq .rows
  ./sluice bench check relational --ledger load.ledger --data ./data
`,
    )
    .action((store: string, flags: CheckFlags) => answered(() => check(store, flags, sources)))
}

async function load(flags: LoadFlags, sources: Sources): Promise<boolean> {
  const { messages, rate, devices, channels, seed, ledger: path, json = false } = flags
  const stepUs = rate === undefined ? (flags.interval * 1e6) / devices : 1e6 / rate
  if (stepUs < 1)
    throw new ToolError('no two messages can have the same microsecond: choose a longer --interval, fewer --devices or a lower --rate')
  const [{ createLedger }, { sendLoad }, { parseMix }] = await Promise.all([
    import('./ledger.ts'),
    import('./load.ts'),
    import('./messages.ts'),
  ])
  const mix = parseMix(flags.mix)
  const { destination, ids } = await openDestination(flags, sources)
  const stop = stopOnSignals({ deadlineMs: stopMsMax, onDeadline: () => console.error('stopped: the last messages are uncertain') })
  const progress = openProgress('messages acknowledged')
  try {
    const startUs = Date.now() * 1000 - (rate === undefined ? Math.ceil(messages * stepUs * spanShare) : 0)
    const plan: LoadPlan = { seed, messages, devices, channels, mix, invalidShare: flags.invalid, startUs, stepUs, ...ids }
    const ledger = await createLedger(path, plan)
    let report: LoadReport
    try {
      report = await sendLoad({ plan, rate, destination, ledger, signal: stop.signal, onProgress: progress.show })
    } finally {
      await ledger.close()
      progress.end()
    }
    await writeOutput(json ? jsonLine(report) : loadWords(report))
    return report.acknowledged === messages
  } finally {
    stop.dispose()
    await destination.close()
  }
}

interface OpenDestination {
  readonly destination: Destination
  /** What messages have of it. */
  readonly ids: Pick<LoadPlan, 'protocol' | 'channelIds' | 'thingIds'>
}

async function openDestination(flags: LoadFlags, sources: Sources): Promise<OpenDestination> {
  const { to, url = to } = flags
  if (to === undefined)
    return { destination: await (await import('./kafka.ts')).openKafkaDestination(flags, sources), ids: { protocol: 'http' } }
  const { createDevices, openHttpDestination, openMqttDestination } = await import('./devices.ts')
  const isMqtt = /^mqtts?:/.test(to)
  if (isMqtt && flags.url === undefined) throw new ToolError('--to mqtt://… needs the address of the control plane: give it with --url')
  const { keys, ...ids } = await createDevices(url!, flags.token, flags)
  const devices = { ...ids, keys }
  const destination = isMqtt ? await openMqttDestination(to, devices) : openHttpDestination(to, devices)
  return { destination, ids: { ...ids, protocol: isMqtt ? 'mqtt' : 'http' } }
}

function loadWords(report: LoadReport): string {
  const { destination, sent, acknowledged, rows, seconds, late_ms_max: lateMs, failure } = report
  const lines = [
    `acknowledged ${counted(acknowledged)} of ${counted(sent)} messages to ${destination}, with ${counted(rows)} rows, in ${seconds.toFixed(1)} s`,
    `${counted(report.messages_per_second)} messages/s, ${counted(report.rows_per_second)} rows/s${lateMs === undefined ? '' : `, at most ${counted(lateMs)} ms late`}`,
    ...(failure === undefined ? [] : [`the first that was not: ${failure}`]),
  ]
  return `${lines.join('\n')}\n`
}

async function check(storeName: string, flags: CheckFlags, sources: Sources): Promise<boolean> {
  const store = storeNamed(storeName)
  if (flags.data !== undefined && store !== 'relational')
    throw new ToolError(`a data folder has a relational store, but no ${store} one: omit --data, or use relational`)
  const [{ readLedger }, { checkLoad }] = await Promise.all([import('./ledger.ts'), import('./check.ts')])
  const ledger = await readLedger(flags.ledger)
  const target = await openChecked(store, flags, sources)
  const progress = openProgress('rows read')
  try {
    const report = await checkLoad(ledger, target, progress.show)
    progress.end()
    await writeOutput(flags.json === true ? jsonLine(report) : checkWords(report))
    return report.holds
  } finally {
    progress.end()
    await target.close()
  }
}

async function openChecked(
  store: StoreName,
  { data, ...flags }: CheckFlags,
  sources: Sources,
): Promise<CheckTarget & Pick<Target, 'close'>> {
  if (data === undefined) return (await import('../target/target.ts')).openTarget(store, flags, sources)
  return (await import('../target/folder.ts')).openFolderTarget(data, flags.config, sources)
}

function checkWords({ messages, rows, in_flight: inFlight, first, holds }: CheckReport): string {
  const rejected = messages.rejected_invalid + messages.rejected_valid
  const lines = [
    `messages  acknowledged ${messages.acknowledged} = stored ${messages.stored} + rejected ${rejected} + lost ${messages.lost}; doubled ${messages.doubled}`,
    `rows      expected ${rows.expected}, distinct ${rows.distinct}, lost ${rows.lost}, doubled ${rows.doubled}`,
    ...(messages.rejected_valid > 0 ? [`${messages.rejected_valid} of the rejected messages are valid: see ./sluice dlq ls`] : []),
    ...(messages.unacknowledged > 0 ? [`${messages.unacknowledged} more are stored that were not acknowledged`] : []),
    ...(rows.other > 0 ? [`${rows.other} rows of the store are not of this load`] : []),
    ...(inFlight > 0 ? [`${inFlight} messages are not stored yet: check again when the writer has caught up`] : []),
    ...first.map(line => `  ${line}`),
    holds ? 'ok: nothing is lost, and nothing is doubled' : 'faults: see above',
  ]
  return `${lines.join('\n')}\n`
}

function counted(number: number): string {
  return number.toLocaleString('en-US')
}

function parseCount(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (count < 1) throw new InvalidArgumentError('Give a whole number from 1 to 999999999.')
  return count
}

function parsePositive(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0
  if (!(number >= 0.01 && number <= 1_000_000)) throw new InvalidArgumentError('Give a number from 0.01 to 1000000.')
  return number
}

/** @returns the share: 0 to 1 */
function parsePercent(text: string): number {
  const [, percent] = /^(\d+(?:\.\d+)?)%?$/.exec(text) ?? []
  const share = Number(percent) / 100
  if (!(share <= 1)) throw new InvalidArgumentError('Give a percentage, as in 1%.')
  return share
}
