// `npm run soak`: the runs of test/writer at full length, against real servers: kills, joining and leaving members, memory, hostile messages.

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { type StoreName, storeNameList, storeOf } from '../../roles/stores/store.ts'
import { faultNames } from '../writer/faults.ts'
import { hostileRun } from '../writer/hostile/hostile.ts'
import { joinRun } from '../writer/joins.ts'
import { type KillReport, killRun } from '../writer/kills.ts'
import { memoryRun } from '../writer/memory.ts'
import { mqttFaultNames, mqttKillRun } from '../writer/mqtt/kills.ts'
import { storeSites } from '../writer/stores/index.ts'

const runNames = ['kills', 'mqtt', 'joins', 'memory', 'hostile'] as const
type RunName = (typeof runNames)[number]
const residentMibMax = 350
const growthMibMax = 10
/** Messages: fewer where the check at the end, or the store itself, takes longer. */
const usualPerSecond: Readonly<Record<StoreName, number>> = { relational: 1500, widecolumn: 1500, timeseries: 500, document: 300 }

const usage = `Usage: npm run soak [-- options] [run …]

Runs writers for a long time against a Kafka and a store of their own, and does to them what happens in a year. The runs, all of
them if none is named:

  kills     while messages flow, again and again one of these strikes, while messages are in flight:
            ${faultNames.join(', ')}.
            At the end each acknowledged message is stored once, or it is a dead letter, and sluice verify says so.
  mqtt      while things publish over MQTT with QoS 1 and 2, and subscribers have sessions that stay, one of these strikes:
            ${mqttFaultNames.join(', ')}.
            At the end each acknowledged message is stored, and was delivered to each subscriber: with QoS 2 exactly once, and with
            QoS 1 repeats are marked. Of a shared subscription one of the members got it.
  joins     writers join the group and leave it. It goes on, no commit is above what is stored, nothing is lost or stored twice.
  memory    far more messages wait than a slow store takes. The writer's resident memory stays under ${residentMibMax} MiB, and flat.
  hostile   messages with any bytes in key, value, headers and times, for one writer after another, each with the parts of the
            envelope elsewhere. Each message is stored or a dead letter, and sluice verify and sluice dlq say so.

  --store NAME   where the run kills stores: ${storeNameList.join(', ')}; the other runs: relational   (relational)
  --kills N      at least so many strikes, each kind as often as the others; also of the run mqtt   (50)
  --foreign      the run kills on a topic of another producer, with nested JSON: at least a million messages
  --apart        the run kills with a topic for each of the two writers, which are in one group
  --minutes N    how long the runs joins and hostile last; and kills and mqtt with --kills 0   (10)
  --every N      seconds between one member's coming or going and the next    (30)
  --messages N   how many wait in the run memory                              (2000000)
  --rate N       messages a second that flow                   (1500; timeseries 500, document 300)
  --seed N       the same one strikes in the same order                       (a random one, which is printed)

Exit code 0: all is well. 1: it is not, and what is wrong is printed. 2: it was called wrongly.
`

class Misuse extends Error {}

interface SoakOptions {
  readonly runs: readonly RunName[]
  readonly store: StoreName
  readonly kills: number
  readonly isForeign: boolean
  readonly isApart: boolean
  readonly minutes: number
  readonly everySeconds: number
  readonly messages: number
  readonly perSecond: number
  readonly seed: number
}

function wholeNumber(text: string, flag: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number
  throw new Misuse(`${flag} takes a whole number, and got ${JSON.stringify(text)}`)
}

/** @returns undefined if help was requested */
function readOptions(): SoakOptions | undefined {
  const string = (value: string) => ({ type: 'string', default: value }) as const
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      store: string('relational'),
      kills: string('50'),
      foreign: { type: 'boolean', default: false },
      apart: { type: 'boolean', default: false },
      minutes: string('10'),
      every: string('30'),
      messages: string('2000000'),
      rate: { type: 'string' },
      seed: string(String(randomInt(2 ** 31))),
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help === true) return undefined
  const unknown = positionals.find(name => !runNames.includes(name as RunName))
  if (unknown !== undefined) throw new Misuse(`there is no run ${JSON.stringify(unknown)}: the runs are ${runNames.join(', ')}`)
  const store = storeOf(values.store)
  if (store === undefined) throw new Misuse(`there is no store ${JSON.stringify(values.store)}: the stores are ${storeNameList.join(', ')}`)
  const options: SoakOptions = {
    store,
    runs: positionals.length === 0 ? runNames : (positionals as RunName[]),
    kills: wholeNumber(values.kills, '--kills'),
    isForeign: values.foreign,
    isApart: values.apart,
    minutes: wholeNumber(values.minutes, '--minutes'),
    everySeconds: wholeNumber(values.every, '--every'),
    messages: wholeNumber(values.messages, '--messages'),
    perSecond: wholeNumber(values.rate ?? `${usualPerSecond[store]}`, '--rate'),
    seed: wholeNumber(values.seed, '--seed'),
  }
  if (options.everySeconds === 0) throw new Misuse('--every takes at least 1')
  if (options.perSecond < 100) throw new Misuse('--rate takes at least 100: something must be in flight when it strikes')
  return options
}

const say = (line: string): void => console.log(line)

const foreignMessages = 1_000_000
const mqttPerSecond = 300

async function kills({ store, kills, isForeign, isApart, minutes, seed, perSecond }: SoakOptions): Promise<readonly string[]> {
  const rounds = kills === 0 ? Number.POSITIVE_INFINITY : Math.ceil(kills / faultNames.length)
  const report = await killRun({
    seed,
    rounds,
    openStore: storeSites[store],
    ...(isApart ? { isApart, partitions: [12, 12] } : {}),
    ...(isForeign ? { isForeign, acknowledgedMin: foreignMessages } : {}),
    ...(kills === 0 ? { msMax: minutes * 60_000 } : {}),
    perSecond,
    onProgress: say,
  })
  say(`\n${tableOf(report)}\n${JSON.stringify(report.counted)} in ${report.seconds} s`)
  return report.faults
}

async function mqtt({ kills, minutes, seed }: SoakOptions): Promise<readonly string[]> {
  const rounds = kills === 0 ? Number.POSITIVE_INFINITY : Math.ceil(kills / mqttFaultNames.length)
  const plan = { seed, rounds, perSecond: mqttPerSecond, ...(kills === 0 ? { msMax: minutes * 60_000 } : {}), onProgress: say }
  const { counted, seconds, faults } = await mqttKillRun(plan)
  say(`\n${JSON.stringify(counted)} in ${seconds} s`)
  return faults
}

/** For each kind: how often, how many messages were in flight, and how soon they were settled. */
function tableOf({ strikes }: KillReport): string {
  const lines = [...Map.groupBy(strikes, ({ kind }) => kind)].map(([kind, struck]) => {
    const inFlight = struck.map(strike => strike.inFlight)
    const recovered = struck.flatMap(({ recoveredMs }) => (recoveredMs === undefined ? [] : [recoveredMs]))
    return `${kind.padEnd(20)} ${struck.length} times, ${Math.min(...inFlight)} to ${Math.max(...inFlight)} in flight, settled ${recovered.length === 0 ? 'later' : `within ${Math.max(...recovered)} ms`}`
  })
  return [`${strikes.length} strikes`, ...lines.toSorted()].join('\n')
}

async function joins({ minutes, everySeconds, seed, perSecond }: SoakOptions): Promise<readonly string[]> {
  const changes = Math.max(1, Math.floor((minutes * 60) / everySeconds))
  const report = await joinRun({ seed, everyMs: everySeconds * 1000, changes, perSecond, onProgress: say })
  say(
    `\n${report.changes.length} changes, ${report.looks} looks at the commits; ${JSON.stringify(report.counted)} in ${report.seconds} s; still for ${Math.max(...report.changes.map(({ stillMs }) => stillMs))} ms at most`,
  )
  return report.faults
}

async function memory({ messages }: SoakOptions): Promise<readonly string[]> {
  const { samplesMib, peakMib, growthMib, settled, batchesPerSecond } = await memoryRun({
    messages,
    workers: 2,
    seconds: 60,
    onProgress: say,
  })
  say(
    `\n${messages} messages, two workers, ${batchesPerSecond.toFixed(1)} batches a second, ${settled} settled: ${Math.min(...samplesMib)} to ${peakMib} MiB resident, ${growthMib} MiB more in the last third`,
  )
  const faults: string[] = []
  if (peakMib >= residentMibMax) faults.push(`${peakMib} MiB were resident, and ${residentMibMax} may be`)
  if (growthMib >= growthMibMax) faults.push(`resident memory grew by ${growthMib} MiB in the last third`)
  return faults
}

async function hostile({ minutes, seed }: SoakOptions): Promise<readonly string[]> {
  const plan = { seed, rounds: Number.POSITIVE_INFINITY, msMax: minutes * 60_000, batchesPerRound: 600, onProgress: say }
  const { messages, stored, deadLettered, faults } = await hostileRun(plan)
  say(`\n${messages} messages: ${stored} stored, ${deadLettered} dead letters`)
  return faults
}

const runs: Readonly<Record<RunName, (options: SoakOptions) => Promise<readonly string[]>>> = { kills, mqtt, joins, memory, hostile }

async function main(): Promise<void> {
  const options = readOptions()
  if (options === undefined) return console.log(usage)
  for (const name of options.runs) {
    say(`\n${name}, seed ${options.seed}\n`)
    const faults = await runs[name](options)
    if (faults.length > 0) process.exitCode = 1
    say(faults.length === 0 ? `${name}: all is well` : `${name}: it is not as it should be\n${faults.join('\n')}`)
  }
}

try {
  await main()
} catch (error) {
  const isMisuse = error instanceof Misuse || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  console.error(isMisuse ? `${(error as Error).message}\n\n${usage}` : error)
  process.exitCode = isMisuse ? 2 : 1
}
