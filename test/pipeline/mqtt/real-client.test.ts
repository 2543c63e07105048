// A client that people use, mqtt.js, publishes over MQTT.

import { randomUUID } from 'node:crypto'
import mqtt from 'mqtt'
import { expect, onTestFinished, test } from 'vitest'
import { fixture } from '../ingest/device.ts'
import { channel, key, thing } from '../ingest/site.ts'
import { openSite, openWebSockets, pack } from './site.ts'

test.each([
  [4, 'TCP'],
  [5, 'TCP'],
  [4, 'WebSocket'],
  [5, 'WebSocket'],
] as const)(
  'mqtt.js publishes with version %i over %s, QoS 0 and 1, and is refused with another key',
  async (protocolVersion, transport) => {
    const site = await openSite()
    const url = transport === 'TCP' ? `mqtt://127.0.0.1:${site.port}` : await openWebSockets(site)
    const options = { protocolVersion, username: thing, password: key, reconnectPeriod: 0 } as const
    const client = await mqtt.connectAsync(url, options)
    onTestFinished(() => client.endAsync())
    await client.publishAsync(`channels/${channel}/messages/a`, pack, { qos: 0 })
    await client.publishAsync(`channels/${channel}/messages/b`, pack, { qos: 1 })
    expect(site.log.messages).toMatchObject([
      { subtopic: 'a', protocol: 'mqtt' },
      { subtopic: 'b', protocol: 'mqtt' },
    ])
    const refused = mqtt.connectAsync(url, { ...options, password: randomUUID() }, false)
    await expect(refused).rejects.toMatchObject({ code: protocolVersion === 5 ? 0x86 : 4 })
  },
)

test('mqtt.js publishes over TLS', async () => {
  const site = await openSite({ tls: { cert: fixture('server'), key: fixture('server-key') } })
  const options = { username: thing, password: key, reconnectPeriod: 0, ca: fixture('ca') }
  const client = await mqtt.connectAsync(`mqtts://127.0.0.1:${site.port}`, options)
  onTestFinished(() => client.endAsync())
  await client.publishAsync(`channels/${channel}/messages`, pack, { qos: 1 })
  expect(site.log.messages).toHaveLength(1)
})

test.each([
  [4, 'TCP'],
  [5, 'TCP'],
  [5, 'WebSocket'],
] as const)('mqtt.js subscribes with version %i over %s, and hears what is in the log', async (protocolVersion, transport) => {
  const site = await openSite()
  const options = { protocolVersion, username: thing, password: key, reconnectPeriod: 0 } as const
  const client = await mqtt.connectAsync(transport === 'TCP' ? `mqtt://127.0.0.1:${site.port}` : await openWebSockets(site), options)
  onTestFinished(() => client.endAsync())
  expect(await client.subscribeAsync(`channels/${channel}/messages/+/b`, { qos: 1 })).toMatchObject([{ qos: 1 }])
  const heard = new Promise<[string, string]>(resolve => client.once('message', (topic, payload) => resolve([topic, payload.toString()])))
  site.topic.appendPayload(1, channel, 'unheard', { subtopic: 'a.c' })
  site.topic.appendPayload(1, channel, 'heard', { subtopic: 'a.b' })
  expect(await heard).toEqual([`channels/${channel}/messages/a/b`, 'heard'])
})
