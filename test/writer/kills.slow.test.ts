// Whatever dies, freezes or is cut off while messages flow: each acknowledged message is stored once, or it is a dead letter.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { firstOf } from '../depth.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import type { FaultKind } from './faults.ts'
import { killRun } from './kills.ts'
import { type MqttFaultKind, mqttKillRun } from './mqtt/kills.ts'

/** Faults of writers and their store. */
const kindsOfStore: readonly FaultKind[] = ['worker ended', 'store crashed', 'store cut', 'store delayed', 'store half-open']
/** Faults of a group's member: its own end, and the log's. */
const kindsOfLog: readonly FaultKind[] = ['writer killed', 'broker killed', 'log cut', 'log delayed', 'log half-open']
/** One of each, for a topic of another producer. */
const kindsOfBoth: readonly FaultKind[] = ['writer killed', 'worker ended', 'store crashed', 'broker killed']

/** One of each, for writers that read two topics. */
const kindsOfTopics: readonly FaultKind[] = ['writer killed', 'store crashed', 'log half-open']

/** One of each, for two writers of different topics in one group. */
const kindsOfGroup: readonly FaultKind[] = ['writer killed', 'worker ended', 'broker killed', 'log cut']

interface Round {
  /** Whether each writer reads one of the topics. */
  readonly isApart?: boolean
  readonly isForeign: boolean
  readonly isNamed: boolean
  /** Of each topic. */
  readonly partitions: readonly number[]
  readonly kinds: readonly FaultKind[]
}

const rounds: readonly Round[] = [
  { isForeign: false, isNamed: false, partitions: [7, 2], kinds: kindsOfTopics },
  { isForeign: false, isNamed: false, partitions: [12], kinds: kindsOfStore },
  { isForeign: false, isNamed: true, partitions: [12], kinds: kindsOfLog },
  { isForeign: true, isNamed: false, partitions: [12], kinds: kindsOfBoth },
  { isApart: true, isForeign: false, isNamed: false, partitions: [6, 4], kinds: kindsOfGroup },
]

describeUnlessMissing('kills', missingKafka() ?? missingPostgres(), () => {
  test.each(firstOf(rounds))(
    'each kind of fault strikes writers (with log.instance: $isNamed; topics with $partitions partitions, foreign: $isForeign, one for each writer: $isApart) while messages are in flight, and no message is lost or duplicated (npm run soak: 50 and more)',
    async ({ isApart = false, isForeign, isNamed, partitions, kinds }) => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const lines: string[] = []
      const report = await killRun({
        seed,
        rounds: 1,
        kinds,
        isForeign,
        partitions,
        isApart,
        isNamed,
        perSecond: 1500,
        onProgress: line => void lines.push(line),
      })
      const said = `apart ${isApart}, named ${isNamed}, foreign ${isForeign}, seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(report.counted)}`
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
      expect(report.faults, said).toEqual([])
      expect(report.strikes.map(({ kind }) => kind).toSorted(), said).toEqual(kinds.toSorted())
      expect(
        report.strikes.filter(({ inFlight }) => inFlight <= 0),
        said,
      ).toEqual([])
      expect(report.counted.acknowledged, said).toBeGreaterThan(1_000)
      expect(report.counted.deadLetters, said).toBeGreaterThan(0)
    },
  )

  test('messages published over MQTT are stored, and reach sessions that stay, with QoS 2 exactly once, and a group, whatever dies (npm run soak -- mqtt: for longer)', async () => {
    const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
    const lines: string[] = []
    const kinds: readonly MqttFaultKind[] = ['ingest killed', 'ingest killed', 'devices cut', 'broker killed']
    const { counted, faults } = await mqttKillRun({ seed, rounds: 1, kinds, perSecond: 200, onProgress: line => void lines.push(line) })
    const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(counted)}`
    if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
    expect(faults, said).toEqual([])
    expect(counted.acknowledged, said).toBeGreaterThan(300)
    expect(counted.acknowledgedOnce, said).toBeGreaterThan(50)
    expect(counted.repeats, said).toBeGreaterThan(0)
  })
})
