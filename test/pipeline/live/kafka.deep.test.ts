// Live messages over real Kafka: several partitions, and a broker that restarts, dies or is silent.

import { expect, test } from 'vitest'
import { type KafkaLogSettings, openKafkaLog } from '../../../pipeline/kafka/log.ts'
import type { TopicOptions } from '../../../pipeline/kafka/topic-patterns.ts'
import { kafkaLiveTopic } from '../../../pipeline/live/kafka.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { logSettings, silent } from '../kafka/stored-messages.ts'
import { outgoing } from '../message.ts'
import { keep, openLive } from './follower.ts'

/** Records of the fake decoder have the number as their name. */
function numbered(channel: string, number: number): OutgoingMessage {
  return outgoing({ channel, subtopic: '', payload: Buffer.from(`[{"n":"${number}","v":1}]`) })
}

function liveOptions(settings: Omit<KafkaLogSettings, 'topic'> & TopicOptions): Parameters<typeof kafkaLiveTopic>[0] {
  return { log: { ...settings, encoding: 'raw', registryTimeoutMs: 10_000 }, envelope: {}, message: { payloadBytes: 262_144 } }
}

const names = (to: number): string[] => Array.from({ length: to }, (_, number) => String(number))

describeWithOwnKafka('live messages over Kafka', kafka => {
  function openBoth(topic: string, brokers = kafka.brokers) {
    const settings = logSettings(brokers, topic, { appendTimeoutMs: 240_000 })
    const live = openLive(kafkaLiveTopic(liveOptions(settings), silent))
    return { live, openLog: () => openKafkaLog(settings, silent) }
  }

  test('channels in several partitions can be followed, and each resumes where it stopped', async () => {
    const topic = await kafka.createTopic({ partitions: 6 })
    const { live, openLog } = openBoth(topic)
    const log = await openLog()
    await log.append([numbered('c0', -1)])
    const channels = Array.from({ length: 8 }, (_, number) => `c${number}`)
    const followers = await Promise.all(channels.map(channel => keep(live, channel)))
    for (const number of names(20)) await log.append(channels.map(channel => numbered(channel, Number(number))))
    await Promise.all(followers.map(follower => follower.until(20)))
    expect(followers.map(follower => follower.names)).toEqual(channels.map(() => names(20)))
    for (const { following } of followers) following.stop()

    // In another process, which knows nothing of the first.
    const { live: other } = openBoth(topic)
    await log.append(channels.map(channel => numbered(channel, 20)))
    const again = await Promise.all(channels.map((channel, at) => keep(other, channel, followers[at]!.streamOffsets[at])))
    await Promise.all(again.map((follower, at) => follower.until(20 - at)))
    expect(again.map(follower => follower.names)).toEqual(channels.map((_, at) => names(21).slice(at + 1)))
    await Promise.all([live.close(), other.close(), log.close()])
  })

  test('a broker that restarts or is killed loses nothing and duplicates nothing', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const { live, openLog } = openBoth(topic)
    const log = await openLog()
    const followers = await Promise.all(['a', 'b', 'c'].map(channel => keep(live, channel)))
    let number = 0
    const append = async (count: number): Promise<void> => {
      for (let left = count; left > 0; left--) {
        await log.append(['a', 'b', 'c'].map(channel => numbered(channel, number)))
        number++
      }
    }
    await append(20)
    await Promise.all(followers.map(follower => follower.until(10)))
    await kafka.restart()
    await append(20)
    await kafka.kill()
    await kafka.restart()
    await append(20)
    await Promise.all(followers.map(follower => follower.until(60)))
    expect(followers.map(follower => follower.names)).toEqual([names(60), names(60), names(60)])
    expect(followers.map(follower => follower.lost.times)).toEqual([0, 0, 0])
    await Promise.all([live.close(), log.close()])
  })

  test('while the broker is silent closing ends immediately, and new followers are refused', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const { live } = openBoth(topic)
    const kept = await keep(live, 'a')
    kafka.pause()
    try {
      await expect(live.follow('a', undefined)).rejects.toThrow(/cannot be followed now/)
      await live.close()
      await kept.ended
    } finally {
      kafka.resume()
    }
  })

  test('several topics are followed as one, a stream resumes in each, and one ends when another topic matches', async () => {
    const topics = [await kafka.createTopic({ name: 'hall.1', partitions: 2 }), await kafka.createTopic({ name: 'hall.2', partitions: 1 })]
    const settings = logSettings(kafka.brokers, 'hall')
    const { topic: _topic, ...log } = settings
    const open = () => openLive(kafkaLiveTopic(liveOptions({ ...log, topics: ['^hall\\.'] }), silent, 500))
    const [live, other] = [open(), open()]
    const logs = await Promise.all(topics.map(topic => openKafkaLog({ ...settings, topic }, silent)))
    const kept = await keep(live, 'a')
    for (const number of names(6)) await logs[Number(number) % 2]!.append([numbered('a', Number(number)), numbered('b', -1)])
    await kept.until(6)
    expect(kept.names.toSorted()).toEqual(names(6))
    const again = await keep(other, 'a', kept.streamOffsets[2])
    await again.until(3)
    expect([again.names.toSorted(), again.lost.times]).toEqual([kept.names.slice(3).toSorted(), 0])

    await kafka.createTopic({ name: 'hall.3' })
    await Promise.all([kept.ended, again.ended])
    const added = await openKafkaLog({ ...settings, topic: 'hall.3' }, silent)
    const next = await keep(live, 'a', kept.streamOffsets[5])
    await added.append([numbered('a', 6)])
    await next.until(1)
    expect([next.names, next.lost.times]).toEqual([['6'], 1])
    await Promise.all([live.close(), other.close(), added.close(), ...logs.map(log => log.close())])
  })

  test('a deleted topic is waited for, and a recreated one is reported as such', async () => {
    const topic = await kafka.createTopic({ partitions: 1 })
    const settings = logSettings(kafka.brokers, topic)
    const live = openLive(kafkaLiveTopic(liveOptions(settings), silent, 500))
    const kept = await keep(live, 'a')
    const log = await openKafkaLog(settings, silent)
    await log.append([numbered('a', 0)])
    await log.close()
    await kept.until(1)
    await kafka.deleteTopic(topic)
    await kafka.createTopic({ name: topic, partitions: 2 })
    const anew = await openKafkaLog(settings, silent)
    await anew.append([numbered('a', 1)])
    await kept.ended
    const again = await keep(live, 'a', kept.streamOffsets[0])
    await again.until(1)
    expect([again.names, again.lost.times]).toEqual([['1'], 1])
    await Promise.all([live.close(), anew.close()])
  })
})
