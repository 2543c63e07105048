// Live messages over real Kafka: several partitions, and a broker that restarts, dies or is silent in the middle.

import { expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { kafkaLiveTopic } from '../../../pipeline/live/kafka.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { logSettings, silent } from '../kafka/stored-messages.ts'
import { outgoing } from '../message.ts'
import { keep, openLive } from './follower.ts'

/** The fake decoder's records have the number as their name. */
function numbered(channel: string, number: number): OutgoingMessage {
  return outgoing({ channel, subtopic: '', payload: Buffer.from(`[{"n":"${number}","v":1}]`) })
}

const names = (to: number): string[] => Array.from({ length: to }, (_, number) => String(number))

describeWithOwnKafka('live messages over Kafka', kafka => {
  function openBoth(topic: string, brokers = kafka.brokers) {
    const settings = logSettings(brokers, topic, { appendTimeoutMs: 60_000 })
    const live = openLive(kafkaLiveTopic({ ...settings, encoding: 'raw', registryTimeoutMs: 1000 }, silent))
    return { live, openLog: () => openKafkaLog(settings, silent) }
  }

  test('channels of several partitions are followed, and each goes on where it was left', async () => {
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

    // By another process, which knows nothing of the first.
    const { live: other } = openBoth(topic)
    await log.append(channels.map(channel => numbered(channel, 20)))
    const again = await Promise.all(channels.map((channel, at) => keep(other, channel, followers[at]!.places[at])))
    await Promise.all(again.map((follower, at) => follower.until(20 - at)))
    expect(again.map(follower => follower.names)).toEqual(channels.map((_, at) => names(21).slice(at + 1)))
    await Promise.all([live.close(), other.close(), log.close()])
  })

  test('a broker that restarts or is killed in the middle loses nothing and doubles nothing', async () => {
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
  }, 120_000)

  test('while the broker is silent it is closed at once, and who comes is refused', async () => {
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
  }, 60_000)

  test('a topic that was deleted is waited for, and one that was made anew is told as such', async () => {
    const topic = await kafka.createTopic({ partitions: 1 })
    const settings = logSettings(kafka.brokers, topic)
    const live = openLive({ ...kafkaLiveTopic({ ...settings, encoding: 'raw', registryTimeoutMs: 1000 }, silent), lookAgainMs: 500 })
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
    const again = await keep(live, 'a', kept.places[0])
    await again.until(1)
    expect([again.names, again.lost.times]).toEqual([['1'], 1])
    await Promise.all([live.close(), anew.close()])
  }, 60_000)
})
