// `sluice ingest` with `sluice api` and a real Kafka: a message is in its topic when it is acknowledged, also around an outage of the broker; and sessions of MQTT go on at another instance.

import mqtt from 'mqtt'
import { expect, test } from 'vitest'
import { readTopic } from '../pipeline/kafka/stored-messages.ts'
import { describeWithOwnKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { call, expectStatus, makeSite, publish } from '../up/operator.ts'
import { ingestWords, internalAddress, type Role, spawnRole, startApi, token, untilHealth, untilPrinted, whenReady } from './processes.ts'

describeWithOwnKafka('ingest on Kafka', kafka =>
  describeWithPostgres('with an api', postgres => {
    test("it waits for a broker, returns ids with the topic's name, and answers 503 while the broker is away", async () => {
      const api = await startApi(await postgres.createDatabase())
      const site = await makeSite(api.url)
      const topic = 'field-7.messages'
      await kafka.kill()
      const address = await internalAddress()
      const url = `http://${address}`
      const spawned = spawnRole([...ingestWords.slice(0, -1), address.split(':')[1]!], {
        SVC_CONTROL_URL: api.internalUrl,
        SVC_CONTROL_TOKEN: token,
        SVC_INTERNAL_LISTEN: '127.0.0.1:0',
        SVC_LOG_BROKERS: kafka.brokers.join(','),
        SVC_LOG_TOPIC: topic,
        SVC_LOG_PARTITIONS: '3',
      })
      await untilPrinted(spawned, /Kafka is away .*: the start waits for it/)
      // Devices get 503 with Retry-After, and health says what the process waits for.
      expect((await call(url, 'GET', '/livez')).status).toBe(200)
      expect((await call(url, 'GET', '/readyz')).status).toBe(503)
      const health = await call(url, 'GET', '/health')
      expect([health.status, health.json]).toMatchObject([503, { checks: { log: [{ status: 'fail' }] } }])
      const early = await publish(url, site, [{ n: 'count', v: 0 }])
      expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1'])
      await kafka.restart()
      const ingest = await whenReady(spawned)
      expect((await call(url, 'GET', '/readyz')).status).toBe(200)
      await untilHealth(ingest, 'log', 'pass')
      await untilHealth(ingest, 'control-plane', 'pass')

      const ids: string[] = []
      for (const v of [1, 2])
        ids.push(String((await expectStatus(publish(ingest.url, site, [{ n: 'count', v }], 'attic'), 202)).json?.['id']))
      await kafka.kill()
      const away = await publish(ingest.url, site, [{ n: 'count', v: 3 }])
      expect([away.status, away.headers.get('retry-after')]).toEqual([503, '1'])
      await untilHealth(ingest, 'log', 'fail')
      await kafka.restart()
      await untilHealth(ingest, 'log', 'pass')
      ids.push(String((await expectStatus(publish(ingest.url, site, [{ n: 'count', v: 4 }]), 202)).json?.['id']))
      expect(await ingest.stop()).toBe(0)
      expect(await api.stop()).toBe(0)

      const stored = await readTopic(kafka.brokers, topic)
      const found = new Map(stored.map(message => [`${topic}-${message.partition}-${message.offset}`, message]))
      const values = ids.map(id => Buffer.from(found.get(id)!.value).toString())
      expect(values).toEqual(['[{"n":"count","v":1}]', '[{"n":"count","v":2}]', '[{"n":"count","v":4}]'])
      const first = found.get(ids[0]!)!
      expect(Buffer.from(first.key!).toString()).toBe(site.channel)
      expect(Object.fromEntries(first.headers.map(([name, value]) => [name, value?.toString()]))).toMatchObject({
        subtopic: 'attic',
        publisher: site.thing,
        protocol: 'http',
        'content-type': 'application/senml+json',
      })
      expect(ingest.printed()).not.toContain(site.device.slice(6))
    })

    test('a session of MQTT hears what another instance took or retains, and goes on there when its own is killed', async () => {
      const api = await startApi(await postgres.createDatabase())
      const site = await makeSite(api.url)
      const environment = {
        SVC_CONTROL_URL: api.internalUrl,
        SVC_CONTROL_TOKEN: token,
        SVC_INTERNAL_LISTEN: '127.0.0.1:0',
        SVC_LOG_BROKERS: kafka.brokers.join(','),
        SVC_LOG_TOPIC: 'sessions.messages',
        SVC_MQTT_ENABLED: 'true',
        SVC_MQTT_PORT: '0',
      }
      const [first, second] = await Promise.all([0, 1].map(() => whenReady(spawnRole(ingestWords, environment))))
      const heard: string[] = []
      async function connect(role: Role, until: string, before?: Promise<unknown>): Promise<mqtt.MqttClient> {
        const [, url] = /^mqtt on (mqtt:\S+)$/m.exec(role.printed())!
        const login = { username: site.thing, password: site.device.replace('Thing ', '') }
        // At one of them over WebSocket.
        const address = role === second ? `${role.url.replace('http', 'ws')}/mqtt` : url!
        const client = mqtt.connect(address, { ...login, clientId: 'stays', clean: false, protocolVersion: 4, reconnectPeriod: 0 })
        const enough = new Promise(resolve =>
          client.on('message', (_topic, payload, { dup }) => {
            heard.push(`${payload.toString()}${dup ? ' again' : ''}`)
            if (payload.toString().includes(until)) resolve(undefined)
          }),
        )
        const { sessionPresent } = await new Promise<{ sessionPresent: boolean }>(resolve => client.once('connect', resolve))
        if (!sessionPresent) await client.subscribeAsync(`channels/${site.channel}/messages`, { qos: 1 })
        await before
        await expectStatus(publish(second!.url, site, [{ n: until, v: 1 }]), 202)
        await enough
        return client
      }
      const client = await connect(first!, 'one')
      const closed = new Promise(resolve => client.once('close', () => resolve(undefined)))
      // Until it knows, within about a second, the first instance sends what comes as well.
      const other = await connect(second!, 'two', closed)
      await other.endAsync()
      const lost = await connect(first!, 'three')
      const state = `channels/${site.channel}/messages/state`
      await lost.publishAsync(state, '{"on":true}', { qos: 1, retain: true })
      await first!.stop('SIGKILL')
      const last = await connect(second!, 'four')
      const retained = new Promise(resolve =>
        last.once('message', (topic, payload, { retain }) => resolve([topic, payload.toString(), retain])),
      )
      await last.subscribeAsync(state, { qos: 1 })
      expect(await retained).toEqual([state, '{"on":true}', true])
      await last.endAsync()
      const texts = ['one', 'two', 'three', 'four'].map(n => JSON.stringify([{ n, v: 1 }]))
      expect(heard.filter(text => !text.endsWith(' again'))).toEqual([...texts, '{"on":true}'])
      expect(await second!.stop()).toBe(0)
      expect(await api.stop()).toBe(0)
    })
  }),
)
