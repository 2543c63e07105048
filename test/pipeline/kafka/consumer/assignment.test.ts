// How a group's partitions are assigned: evenly, with as few moves as possible, each topic among the members that subscribe to it.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  assign,
  byTopic,
  decodeAssignment,
  decodeSubscription,
  encodeAssignment,
  encodeSubscription,
  type TopicPartitions,
} from '../../../../pipeline/kafka/consumer/assignment.ts'
import type { GroupMember } from '../../../../pipeline/kafka/consumer/broker.ts'
import { openGroupView } from '../../../../pipeline/kafka/consumer/group-view.ts'
import { openLeadership } from '../../../../pipeline/kafka/consumer/leadership.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import { type LogPartition, logPartition } from '../../../../transformers/log-partition.ts'
import { positionsOf } from '../../positions.ts'
import { recordingLogger } from '../../writer/workers/recording-logger.ts'
import { brokerAddresses, clusterOf, fakeBroker, fakeTopic, holding } from '../fake-brokers.ts'

function member(memberId: string, topics: readonly string[], owned: TopicPartitions = new Map()): GroupMember {
  const partitions = [...owned].flatMap(([topic, own]) => own.map(partition => logPartition(topics.indexOf(topic), partition)))
  return { memberId, metadata: encodeSubscription(topics, partitions) }
}

const assigned = (counts: Readonly<Record<string, number>>, ...members: readonly GroupMember[]) =>
  assign(new Map(Object.entries(counts)), members.map(decodeSubscription))
const of = (given: ReadonlyMap<string, TopicPartitions>, memberId: string) => Object.fromEntries(given.get(memberId)!)
/** `hall 3`, in order. */
const names = (partitions: TopicPartitions = new Map()): string[] =>
  [...partitions].flatMap(([topic, own]) => own.map(partition => `${topic} ${partition}`)).toSorted()
const allNames = (given: ReadonlyMap<string, TopicPartitions>): string[] => [...given.values()].flatMap(names).toSorted()
const partitionsOf = (counts: Readonly<Record<string, number>>): string[] =>
  Object.entries(counts)
    .flatMap(([topic, count]) => Array.from({ length: count }, (_, partition) => `${topic} ${partition}`))
    .toSorted()

describe('members of the same topics', () => {
  test('partitions are assigned evenly, and stay with their members as far as possible', () => {
    const t = (...partitions: number[]) => new Map([['t', partitions]])
    const first = assigned({ t: 5 }, member('a', ['t']), member('b', ['t']))
    expect([of(first, 'a'), of(first, 'b')]).toEqual([{ t: [0, 3, 4] }, { t: [1, 2] }])
    const joined = assigned({ t: 6 }, member('new', ['t']), member('a', ['t'], t(0, 1, 2)), member('b', ['t'], t(3, 4, 5)))
    expect(['a', 'b', 'new'].map(name => of(joined, name))).toEqual([{ t: [0, 1] }, { t: [3, 4] }, { t: [2, 5] }])
    expect(of(assigned({ t: 1 }, member('a', ['t']), member('b', ['t'], t(0))), 'b')).toEqual({ t: [0] })
    // If two members claim the same partition only one gets it; what the topic does not have is given to none.
    const claimed = assigned({ t: 2 }, member('a', ['t'], t(0, 1)), member('b', ['t'], t(0, 1, 7)))
    expect(allNames(claimed)).toEqual(['t 0', 't 1'])
  })

  const topics = ['hall', 'line', 'plant']
  /** Partitions of the topics above, and the members that come and go. */
  const groups = fc.record({
    counts: fc.record({
      hall: fc.integer({ min: 1, max: 9 }),
      line: fc.integer({ min: 1, max: 9 }),
      plant: fc.integer({ min: 1, max: 9 }),
    }),
    before: fc.integer({ min: 1, max: 6 }),
    after: fc.integer({ min: 1, max: 6 }),
  })

  test('the partitions of several topics are assigned each to one member, evenly, and no more of them move than must', () => {
    fc.assert(
      fc.property(groups, ({ counts, before, after }) => {
        const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`)
        const first = assigned(counts, ...ids(before).map(id => member(id, topics)))
        const second = assigned(counts, ...ids(after).map(id => member(id, topics, first.get(id))))
        for (const given of [first, second]) {
          expect(allNames(given)).toEqual(partitionsOf(counts))
          const sizes = [...given.values()].map(own => names(own).length)
          expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
        }
        for (const [id, kept] of second) {
          const owned = new Set(names(first.get(id)))
          // It gives partitions away, or gets some, but never both.
          const stayed = names(kept).filter(name => owned.has(name)).length
          expect(stayed).toBe(Math.min(owned.size, names(kept).length))
        }
      }),
    )
  })

  test('each member gets partitions of each topic, as far as there are enough', () => {
    const counts = { hall: 4, line: 4, plant: 4 }
    const alone = assigned(counts, member('a', topics))
    const joined = assigned(counts, member('a', topics, alone.get('a')), member('b', topics))
    for (const given of joined.values()) expect([...given.keys()].toSorted()).toEqual(topics)
  })
})

describe('members of different topics', () => {
  test('each gets what it subscribes to, whoever leads, and nothing moves when a member of another topic joins or leaves', () => {
    const counts = { a: 3, b: 2 }
    const alone = assigned(counts, member('leader', ['a']))
    expect(of(alone, 'leader')).toEqual({ a: [0, 1, 2] })
    const two = assigned(counts, member('leader', ['a'], alone.get('leader')), member('other', ['b']))
    expect([of(two, 'leader'), of(two, 'other')]).toEqual([{ a: [0, 1, 2] }, { b: [0, 1] }])
    const three = assigned(counts, ...[...two].map(([id, own]) => member(id, [...own.keys()], own)), member('second', ['b']))
    expect(of(three, 'leader')).toEqual({ a: [0, 1, 2] })
    expect([of(three, 'other'), of(three, 'second')].map(({ b }) => b!.length)).toEqual([1, 1])
  })

  const subscriptions = fc.dictionary(
    fc.constantFrom('m0', 'm1', 'm2', 'm3', 'm4', 'm5'),
    fc.uniqueArray(fc.constantFrom<string[]>('hall', 'line', 'plant', 'gone'), { minLength: 1 }),
    { minKeys: 1 },
  )

  test('each partition goes to one of the members that subscribe to its topic, evenly among the same subscribers, and stays where it may', () => {
    const counts = { hall: 5, line: 1, plant: 8 }
    fc.assert(
      fc.property(subscriptions, subscriptions, (before, after) => {
        const first = assigned(counts, ...Object.entries(before).map(([id, topics]) => member(id, topics)))
        const ownedBy = (id: string): TopicPartitions => new Map([...(first.get(id) ?? [])].filter(([topic]) => after[id]!.includes(topic)))
        const second = assigned(counts, ...Object.entries(after).map(([id, topics]) => member(id, topics, ownedBy(id))))
        for (const [given, asked] of [
          [first, before],
          [second, after],
        ] as const) {
          const wanted = new Set(Object.values(asked).flat())
          expect(allNames(given)).toEqual(partitionsOf(counts).filter(name => wanted.has(name.split(' ')[0]!)))
          for (const [id, own] of given) for (const topic of own.keys()) expect(asked[id]).toContain(topic)
          for (const [topic, takers] of Object.entries(counts).map(([topic]) => [topic, subscribersOf(asked, topic)] as const)) {
            const pool = Object.keys(counts).filter(other => subscribersOf(asked, other).join() === takers.join())
            const sizes = takers.map(id => pool.flatMap(of => given.get(id)!.get(of) ?? []).length)
            if (sizes.length > 0) expect(Math.max(...sizes) - Math.min(...sizes), topic).toBeLessThanOrEqual(1)
          }
        }
        // Of a topic whose subscribers are the same, and the same as those of the same other topics, nothing moves.
        const poolOf = (asked: Record<string, string[]>, topic: string): string =>
          Object.keys(counts)
            .map(other => (subscribersOf(asked, other).join() === subscribersOf(asked, topic).join() ? other : ''))
            .join()
        for (const topic of Object.keys(counts)) {
          if (subscribersOf(before, topic).join() !== subscribersOf(after, topic).join()) continue
          if (poolOf(before, topic) !== poolOf(after, topic)) continue
          for (const id of subscribersOf(after, topic)) expect(second.get(id)!.get(topic)).toEqual(first.get(id)!.get(topic))
        }
      }),
    )
  })

  function subscribersOf(asked: Readonly<Record<string, readonly string[]>>, topic: string): string[] {
    return Object.keys(asked)
      .filter(id => asked[id]!.includes(topic))
      .toSorted()
  }

  test('a single partition goes to the subscriber that has the fewest of other topics', () => {
    const given = assigned({ a: 1, b: 1 }, member('1-of-both', ['a', 'b']), member('2-of-a', ['a']), member('3-of-b', ['b']))
    expect([of(given, '1-of-both'), of(given, '2-of-a'), of(given, '3-of-b')]).toEqual([{ a: [0] }, {}, { b: [0] }])
  })

  test('a topic may have any name and number of partitions that Kafka allows', () => {
    const wide = `${'w'.repeat(248)}.`
    const given = assigned({ own: 1, [wide]: 10_000 }, member('a', ['own']), { memberId: 'b', metadata: member('b', [wide]).metadata })
    expect(given.get('b')!.get(wide)!.length).toBe(10_000)
  })
})

test('an assignment can be decoded, also that of a member without partitions', () => {
  const encoded = (topics: readonly string[], partitions: readonly LogPartition[]) => encodeAssignment(byTopic(topics, partitions))
  const [one, three] = [logPartition(0, 1), logPartition(0, 3)]
  expect(decodeAssignment(encoded(['t'], [three, one]), ['t'])).toEqual([one, three])
  expect(decodeAssignment(encoded(['t'], []), ['t'])).toEqual([])
  expect(decodeAssignment(Buffer.alloc(0), ['t'])).toEqual([])
  expect(decodeAssignment(encoded(['u'], [one]), ['t'])).toEqual([])
  const several = [logPartition(0, 2), logPartition(1, 0), logPartition(1, 5)]
  expect(decodeAssignment(encoded(['a', 'b'], several), ['a', 'b'])).toEqual(several)
  // A member that knows one topic more has other indexes.
  const moved = [logPartition(0, 2), logPartition(2, 0), logPartition(2, 5)]
  expect(decodeAssignment(encoded(['a', 'b'], several), ['a', 'aa', 'b'])).toEqual(moved)
})

describe('a member whose subscription cannot be read', () => {
  const whole = member('odd', ['t', 'u'], new Map([['t', [0, 1]]])).metadata
  const withInt32 = (at: number, value: number): Buffer => {
    const bytes = Buffer.from(whole)
    bytes.writeInt32BE(value, at)
    return bytes
  }
  const withInt16 = (at: number, value: number): Buffer => {
    const bytes = Buffer.from(whole)
    bytes.writeInt16BE(value, at)
    return bytes
  }
  const odd: readonly (readonly [string, Buffer])[] = [
    ['nothing', Buffer.alloc(0)],
    ['more topics than bytes', withInt32(2, 2 ** 31 - 1)],
    ['a name of negative length', withInt16(6, -2)],
    ['endless names of no length', Buffer.concat([whole.subarray(0, 2), Buffer.from([127, 255, 255, 255]), Buffer.alloc(64)])],
    ['more partitions than bytes', withInt32(whole.length - 12, 2 ** 31 - 1)],
    ['a name that no topic has', member('odd', ['a topic']).metadata],
    ['cut in a name', whole.subarray(0, 8)],
  ]

  test.each(odd)('gets nothing, and harms no other: %s', (_name, metadata) => {
    const given = assigned({ t: 4 }, { memberId: 'odd', metadata }, member('a', ['t']))
    expect([of(given, 'odd'), of(given, 'a')]).toEqual([{}, { t: [0, 1, 2, 3] }])
  })

  test('whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
        const metadata = Buffer.from(bytes)
        expect(allNames(assigned({ t: 2 }, { memberId: 'odd', metadata }, member('a', ['t'])))).toEqual(['t 0', 't 1'])
      }),
    )
  })
})

describe('a leader', () => {
  interface Known {
    partitions: number
    /** Kafka's number. */
    error?: number
  }

  /** The leader reads the topic `own`. */
  function openLed(topics: Record<string, Known>) {
    const asked: (readonly string[])[] = []
    const { cluster } = clusterOf(['node1:9092'], () => ({
      async metadata(wanted) {
        asked.push(wanted)
        const found = wanted.map(name => {
          const { partitions, error = 0 } = topics[name] ?? { partitions: 0, error: 3 }
          return { error, id: name, partitions: Array.from({ length: partitions }, (_, partition) => ({ partition, leader: 1 })) }
        })
        return { brokers: brokerAddresses, topics: found }
      },
    }))
    const { logger, lines } = recordingLogger()
    const leadership = openLeadership(openTopics(cluster, ['own'], undefined), 'plant', logger)
    return {
      leadership,
      asked,
      warnings: () => lines().flatMap(({ level, msg }) => (level === 40 ? [String(msg)] : [])),
      /** How many partitions each member gets. */
      sizes: async (...members: readonly GroupMember[]) => {
        const encoded = await leadership.assign(members)
        const wanted = new Map(members.map(one => [one.memberId, [...decodeSubscription(one).topics]]))
        return Object.fromEntries([...encoded].map(([id, bytes]) => [id, decodeAssignment(bytes, wanted.get(id)!).length]))
      },
    }
  }

  test('assigns the topics of all members, and says once which it cannot', async () => {
    const led = openLed({ own: { partitions: 2 }, other: { partitions: 3 }, secret: { partitions: 0, error: 29 } })
    const members = [member('me', ['own']), member('a', ['other']), member('b', ['secret', 'missing']), member('c', ['other', 'missing'])]
    const odd = { memberId: 'odd', metadata: Buffer.from('odd') }
    for (let times = 0; times < 2; times++) {
      expect(await led.sizes(...members, odd)).toEqual({ me: 2, a: 2, b: 0, c: 1, odd: 0 })
    }
    expect(led.warnings()).toEqual([
      expect.stringMatching(
        /subscribe to the topics missing, secret, which do not exist or .*; 1 member of the consumer group sent .* cannot be read/,
      ),
    ])
    expect(await led.sizes(member('me', ['own']), member('a', ['other']))).toEqual({ me: 2, a: 3 })
    await led.sizes(member('me', ['own']), member('b', ['missing']))
    expect(led.warnings()).toEqual([expect.any(String), expect.stringMatching(/subscribe to the topic missing, which does not exist or/)])
  })

  test('notices new partitions of the topics of all members, but interrupts none because a topic is gone', async () => {
    const topics: Record<string, Known> = { own: { partitions: 2 }, other: { partitions: 3 } }
    const { leadership, sizes } = openLed(topics)
    expect(await leadership.isOutdated()).toBe(true)
    const members = [member('me', ['own']), member('a', ['other', 'later'])]
    await sizes(...members)
    expect(await leadership.isOutdated()).toBe(false)
    delete topics['other']
    expect(await leadership.isOutdated()).toBe(false)
    topics['other'] = { partitions: 4 }
    expect(await leadership.isOutdated()).toBe(true)
    expect(await sizes(...members)).toEqual({ me: 2, a: 4 })
    topics['later'] = { partitions: 1 }
    expect(await leadership.isOutdated()).toBe(true)
    expect(await sizes(...members)).toEqual({ me: 2, a: 5 })
    topics['own']!.partitions++
    expect(await leadership.isOutdated()).toBe(true)
    await sizes(...members)
    leadership.forget()
    expect(await leadership.isOutdated()).toBe(true)
  })

  test('stops if a topic of its own is not to be described, and looks up a bounded number of others', async () => {
    const led = openLed({ own: { partitions: 0, error: 29 } })
    await expect(led.leadership.assign([member('me', ['own'])])).rejects.toThrow(/not authorized to read the topic own/)
    const many = openLed({ own: { partitions: 1 } })
    const claimed = Array.from({ length: 5000 }, (_, nth) => `topic-${nth}`)
    const metadata = encodeSubscription(claimed, [])
    expect(await many.sizes(member('me', ['own']), { memberId: 'a', metadata })).toEqual({ me: 1, a: 0 })
    expect(many.asked.map(({ length }) => length)).toEqual([1001])
  })
})

test('a group seen from outside: how far it is with the partitions that the caller does not have, and nothing is asked of the others', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 9 }, { leader: 2, start: 4, end: 7 }, { leader: 1, start: 2, end: 5 })
  const asked: string[] = []
  const view = openGroupView({
    brokers: ['node1:9092'],
    topics: ['t'],
    topicIds: ['x'],
    group: 'plant',
    async connectBroker(address) {
      const held = holding(topic, address)
      return fakeBroker(address, {
        ...held,
        async offsets(...of) {
          asked.push(`${address.host} ${of[1].join()}`)
          return await held.offsets(...of)
        },
        async committed(_group, _topics, of) {
          asked.push(`commits ${of.join()}`)
          return new Map(of.filter(at => at < 2).map(at => [at, 5]))
        },
      })
    },
  })
  const of = (...partitions: number[]) => new Set(partitions.map(partition => logPartition(0, partition)))
  // Of the third nothing is committed: it begins at the start of the log.
  const all = { 0: { next: 5, end: 9 }, 1: { next: 5, end: 7 }, 2: { next: 2, end: 5 } }
  expect(await view.progress(of())).toEqual(positionsOf(all))
  expect(new Set(asked.splice(0))).toEqual(new Set(['commits 0,1,2', 'node1 0,2', 'node2 1']))
  expect(await view.progress(of(0, 2))).toEqual(positionsOf({ 1: all[1] }))
  expect(new Set(asked.splice(0))).toEqual(new Set(['commits 1', 'node2 1']))
  expect(await view.progress(of(0, 1, 2))).toEqual(new Map())
  expect(asked).toEqual([])
  view.close()
})

test('a group seen from outside: partitions that no member has, without those that its leader cannot know yet, and nothing while it rebalances', async () => {
  const counts: Record<string, number> = { own: 3, other: 2 }
  let state = 'Stable'
  let assignments = [encodeAssignment(new Map([['own', [1]]])), encodeAssignment(new Map([['strange', [0, 1]]])), Buffer.alloc(0)]
  const view = openGroupView({
    brokers: ['node1:9092'],
    topics: ['own', 'other'],
    topicIds: ['own', 'other'],
    group: 'plant',
    connectBroker: async address =>
      fakeBroker(address, {
        metadata: async names => ({
          brokers: brokerAddresses,
          topics: names.map(name => ({
            error: 0,
            id: name,
            partitions: Array.from({ length: counts[name]! }, (_, partition) => ({ partition, leader: 1 })),
          })),
        }),
        describe: async () => ({ state, members: assignments.map(assignment => ({ clientId: 'sluice', host: '/127.0.0.1', assignment })) }),
      }),
  })
  const unassigned = async () => {
    const found = await view.unassigned()
    return found?.partitions.map(at => `${['own', 'other'][at >>> 12]} ${at & 4095}`)
  }
  expect(await unassigned()).toEqual(['own 0', 'own 2', 'other 0', 'other 1'])
  assignments = [encodeAssignment(new Map([['own', [0, 1, 2]]])), encodeAssignment(new Map([['other', [0, 1]]]))]
  expect(await unassigned()).toEqual([])
  counts['own'] = 4
  expect(await unassigned()).toEqual([])
  expect(await unassigned()).toEqual(['own 3'])
  state = 'PreparingRebalance'
  expect(await unassigned()).toBeUndefined()
  view.close()
})
