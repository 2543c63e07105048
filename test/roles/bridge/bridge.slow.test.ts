// `sluice bridge` between Mosquitto and Kafka: what the broker accepted with QoS 1 is in the log, whichever of the three is killed or away meanwhile.

import mqtt from 'mqtt'
import { expect, onTestFinished, test } from 'vitest'
import { readTopic } from '../../pipeline/kafka/stored-messages.ts'
import { describeWithOwnKafka, type Kafka } from '../../servers/kafka.ts'
import { describeWithMosquitto, type Mosquitto } from '../../servers/mosquitto.ts'
import { mainFile, type Spawned, spawnRole, untilHealth, untilPrinted } from '../processes.ts'

interface Bridge extends Spawned {
  readonly internalUrl: string
  /** How many messages it has appended. */
  taken(): Promise<number>
}

async function startBridge(kafka: Kafka, { url }: Mosquitto, topic: string, own: NodeJS.ProcessEnv = {}): Promise<Bridge> {
  const spawned = spawnRole([mainFile, 'bridge', '--port', '0'], {
    SVC_BROKER_URL: url,
    SVC_BROKER_TOPICS: `${topic}/#`,
    SVC_BROKER_ENVELOPE_CHANNEL: 'topic:2',
    SVC_LOG_BROKERS: kafka.brokers.join(),
    SVC_LOG_TOPIC: topic,
    SVC_LOG_PARTITIONS: '3',
    SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    ...own,
  })
  await untilPrinted(spawned, /subscribed at the broker/)
  const internalUrl = /^internal on (\S+)$/m.exec(spawned.printed())![1]!
  await untilHealth({ internalUrl }, 'broker', 'pass')
  return {
    ...spawned,
    internalUrl,
    async taken() {
      const metrics = await (await fetch(`${internalUrl}/metrics`)).text()
      return Number(/^component_received_events_total\{component_id="bridge".*\} (\d+)$/m.exec(metrics)?.[1] ?? 0)
    },
  }
}

async function kill({ child, ended }: Spawned): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

interface Publisher {
  /** Publishes the next `count` messages. Resolves when the broker has accepted them all. @param at called when half of them are */
  publish(count: number, at?: () => unknown): Promise<void>
  /** The numbers of all messages that were published. */
  all(): number[]
}

async function openPublisher({ url }: Mosquitto, topic: string): Promise<Publisher> {
  const client = await mqtt.connectAsync(url, { protocolVersion: 5, clean: false, clientId: `${topic}-publisher`, reconnectPeriod: 20 })
  onTestFinished(() => client.endAsync(true))
  let last = 0
  return {
    async publish(count, at) {
      let accepted = 0
      const half = Math.ceil(count / 2)
      await Promise.all(
        Array.from({ length: count }, async () => {
          const number = ++last
          await client.publishAsync(`${topic}/press-${number % 7}`, String(number), { qos: 1 })
          if (++accepted === half) await at?.()
        }),
      )
    },
    all: () => Array.from({ length: last }, (_, index) => index + 1),
  }
}

/** Resolves when the log has all of them at least once, with its messages. */
async function untilStored(kafka: Kafka, topic: string, numbers: readonly number[]) {
  for (;;) {
    const stored = await readTopic(kafka.brokers, topic)
    const found = new Set(stored.map(({ value }) => Number(value)))
    if (numbers.every(number => found.has(number))) return stored
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

describeWithOwnKafka('a bridge', kafka =>
  describeWithMosquitto('with Mosquitto', mosquitto => {
    test('what the broker accepted is in the log at least once, across kills of the bridge and outages of the broker and the log', async () => {
      const topic = 'plant'
      const first = await startBridge(kafka, mosquitto, topic)
      const publisher = await openPublisher(mosquitto, topic)
      await publisher.publish(500, () => kill(first))
      await publisher.publish(100)
      const second = await startBridge(kafka, mosquitto, topic)
      await publisher.publish(500, () => mosquitto.restart())
      await kafka.kill()
      await publisher.publish(500)
      await untilPrinted(second, /Kafka is away/)
      await untilHealth(second, 'log', 'fail')
      // Without a channel it stops no other.
      const client = await mqtt.connectAsync(mosquitto.url)
      await client.publishAsync(topic, 'keyless', { qos: 1 })
      await client.endAsync()
      await kafka.restart()
      await publisher.publish(100)
      const stored = await untilStored(kafka, topic, publisher.all())
      const keyless = stored.filter(({ key }) => key === null)
      expect(keyless.map(({ value }) => value.toString())).toContain('keyless')
      expect(new Set(stored.map(({ key }) => key?.toString()))).toEqual(
        new Set([undefined, ...[0, 1, 2, 3, 4, 5, 6].map(press => `press-${press}`)]),
      )
      const lines = second.printed()
      for (const name of ['Kafka', 'the MQTT broker'])
        expect(lines.match(new RegExp(`${name} is away`, 'g'))?.length).toBeLessThanOrEqual(2)
      second.child.kill('SIGTERM')
      expect(await second.ended).toBe(0)
    })

    test('two bridges share the messages, and one goes on while the other is dead', async () => {
      const topic = 'hall'
      const start = (clientId: string) =>
        startBridge(kafka, mosquitto, topic, { SVC_BROKER_CLIENT_ID: clientId, SVC_BROKER_SHARE: 'sluice' })
      const [first, second] = [await start('one'), await start('two')]
      const publisher = await openPublisher(mosquitto, topic)
      await publisher.publish(200)
      await untilStored(kafka, topic, publisher.all())
      const [byFirst, bySecond] = [await first.taken(), await second.taken()]
      expect(byFirst).toBeGreaterThan(20)
      expect(bySecond).toBeGreaterThan(20)
      await publisher.publish(200, () => kill(first))
      await publisher.publish(200)
      while ((await second.taken()) < bySecond + 100) await new Promise(resolve => setTimeout(resolve, 20))
      await start('one')
      await untilStored(kafka, topic, publisher.all())
    })
  }),
)
