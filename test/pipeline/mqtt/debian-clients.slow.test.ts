// The clients that people try first, mosquitto_pub and mosquitto_sub, and Paho for Python, as Debian has them: both versions, each QoS both ways, sessions,
// retained messages, refusals.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { describeUnlessMissing } from '../../servers/describe-with.ts'
import { missingPackages, missingService } from '../../servers/install/apt.ts'
import { channel, key, thing } from '../ingest/site.ts'
import { openFakeTopic } from '../live/fake-topic.ts'
import { type MqttSite, openSessionsFile, openSite } from './site.ts'

const missing = missingService('mosquitto', ['mosquitto-clients'], ['/usr/bin/mosquitto_pub', '/usr/bin/mosquitto_sub'])
const missingPaho = missingPackages({
  packages: ['python3-paho-mqtt'],
  problem: 'Paho for Python is not on this machine; this installs it',
  check: "/usr/bin/python3 -c 'import paho.mqtt.client'",
})
const base = `channels/${channel}/messages`
const run = promisify(execFile)

/** Whose subscribers hear what is published, and whose sessions outlive connections. */
async function open(): Promise<MqttSite> {
  const topic = openFakeTopic(2)
  const sessions = openSessionsFile()
  onTestFinished(() => sessions.close())
  return openSite({
    topic,
    sessions,
    append(messages, log) {
      for (const { channel: to, subtopic, publisher, payload } of messages) {
        topic.appendPayload(0, to, Buffer.from(payload).toString(), { subtopic, publisher })
      }
      return log.append(messages)
    },
  })
}

describeUnlessMissing('with the clients of Mosquitto', missing, () => {
  const login = ({ port }: MqttSite, version: string): string[] => [
    '-h',
    '127.0.0.1',
    '-p',
    `${port}`,
    '-V',
    version,
    '-u',
    thing,
    '-P',
    key,
  ]

  /** @returns its warnings */
  async function publish(site: MqttSite, version: string, ...own: string[]): Promise<string> {
    return (await run('mosquitto_pub', [...login(site, version), ...own], { timeout: 60_000 })).stderr
  }

  /** Resolves, when it has subscribed, with what it hears until its end. */
  async function subscribe(site: MqttSite, version: string, count: number, ...own: string[]): Promise<{ heard: Promise<string[]> }> {
    const client = spawn('stdbuf', ['-oL', 'mosquitto_sub', ...login(site, version), '-d', '-C', `${count}`, '-F', '%q %r %t %p', ...own])
    onTestFinished(() => void client.kill())
    let text = ''
    const subscribed = Promise.withResolvers<void>()
    client.stdout.on('data', chunk => {
      text += String(chunk)
      if (text.includes('Subscribed (mid')) subscribed.resolve()
    })
    const heard = once(client, 'close').then(() => text.split('\n').filter(line => /^[012] [01] channels\//.test(line)))
    await Promise.race([subscribed.promise, heard])
    return { heard }
  }

  const line = (qos: number, subtopic: string, value: number, retain = 0): string =>
    `${qos} ${retain} ${base}/${subtopic} [{"n":"a","v":${value}}]`
  const pack = (value: number): string[] => ['-m', `[{"n":"a","v":${value}}]`]

  test.each(['mqttv311', 'mqttv5'])('%s: messages of each QoS are stored, and heard with each', async version => {
    const site = await open()
    const listening = await Promise.all(['0', '1', '2'].map(qos => subscribe(site, version, 3, '-q', qos, '-t', `${base}/+/b`)))
    for (const qos of [0, 1, 2]) await publish(site, version, '-q', `${qos}`, '-t', `${base}/a/b`, ...pack(qos))
    for (const [qos, { heard }] of listening.entries()) expect(await heard).toEqual([0, 1, 2].map(value => line(qos, 'a/b', value)))
    expect(site.log.messages.map(({ subtopic }) => subtopic)).toEqual(['a.b', 'a.b', 'a.b'])
  })

  test.each([
    ['mqttv311', []],
    ['mqttv5', ['-x', '600']],
  ])('%s: a session gets what came while it was away', async (version, expiry) => {
    const site = await open()
    const session = ['-i', 'away', '-c', ...expiry, '-q', '2', '-t', `${base}/#`]
    const first = await subscribe(site, version, 1, ...session)
    await publish(site, version, '-q', '1', '-t', `${base}/a`, ...pack(1))
    expect(await first.heard).toEqual([line(2, 'a', 1)])
    await publish(site, version, '-q', '1', '-t', `${base}/a`, ...pack(2))
    const later = await subscribe(site, version, 2, ...session)
    await publish(site, version, '-q', '1', '-t', `${base}/a`, ...pack(3))
    expect(await later.heard).toEqual([line(2, 'a', 2), line(2, 'a', 3)])
  })

  test.each(['mqttv311', 'mqttv5'])('%s: a group shares the messages', async version => {
    const site = await open()
    const group = ['-q', '1', '-t', `$share/workers/${base}/#`]
    const [one, two] = [await subscribe(site, version, 2, ...group), await subscribe(site, version, 2, ...group)]
    for (const value of [1, 2, 3, 4]) await publish(site, version, '-q', '1', '-t', `${base}/a`, ...pack(value))
    expect(await one.heard).toEqual([line(1, 'a', 1), line(1, 'a', 3)])
    expect(await two.heard).toEqual([line(1, 'a', 2), line(1, 'a', 4)])
  })

  test.each(['mqttv311', 'mqttv5'])('%s: a retained message is heard by who subscribes later, until it is cleared', async version => {
    const site = await open()
    const state = `${base}/state`
    await publish(site, version, '-q', '1', '-r', '-t', state, ...pack(1))
    expect(await (await subscribe(site, version, 1, '-q', '1', '-t', state)).heard).toEqual([line(1, 'state', 1, 1)])
    await publish(site, version, '-q', '1', '-r', '-n', '-t', state)
    const later = await subscribe(site, version, 1, '-q', '1', '-t', state)
    await publish(site, version, '-q', '1', '-t', state, ...pack(2))
    expect(await later.heard).toEqual([line(1, 'state', 2)])
  })

  test('mqttv5: a refusal is shown with its reason', async () => {
    const site = await open()
    expect(await publish(site, 'mqttv5', '-q', '1', '-t', 'elsewhere', ...pack(1))).toMatch(/topic name invalid/i)
    expect(site.log.messages).toEqual([])
  })
})

/** Publishes a message of each QoS and prints what it hears, with each; then the same on the session that it has left, without subscribing. */
const pahoClient = `
import sys, threading
from paho.mqtt import client as mqtt
from paho.mqtt.properties import Properties
from paho.mqtt.packettypes import PacketTypes

port, version, user, key, base = sys.argv[1:]
v5 = version == "5"

def turn(first):
    own = {} if v5 else {"clean_session": False}
    client = mqtt.Client("paho", protocol=mqtt.MQTTv5 if v5 else mqtt.MQTTv311, **own)
    client.username_pw_set(user, key)
    ready, done, heard = threading.Event(), threading.Event(), []
    def connected(client, data, flags, code, properties=None):
        assert code == 0 and bool(flags["session present"]) == (not first), (code, flags)
        if first: client.subscribe([(base + "/%d" % qos, qos) for qos in (0, 1, 2)])
        else: ready.set()
    def message(client, data, message):
        heard.append("%d %s" % (message.qos, message.payload.decode()))
        if len(heard) == 9: done.set()
    client.on_connect, client.on_message = connected, message
    client.on_subscribe = lambda *args: ready.set()
    expiry = {}
    if v5:
        expiry = {"clean_start": False, "properties": Properties(PacketTypes.CONNECT)}
        expiry["properties"].SessionExpiryInterval = 600
    client.connect("127.0.0.1", int(port), **expiry)
    client.loop_start()
    assert ready.wait(60)
    for to in (0, 1, 2):
        for qos in (0, 1, 2):
            client.publish(base + "/%d" % to, '[{"n":"a","v":%d}]' % qos, qos).wait_for_publish()
    assert done.wait(60), heard
    client.disconnect()
    client.loop_stop()
    print("\\n".join(sorted(heard)))

turn(True)
turn(False)
`

describeUnlessMissing('with Paho', missingPaho, () => {
  test.each([4, 5])('version %i: messages of each QoS are stored, and heard with each, also on a session that was left', async version => {
    const site = await open()
    const { stdout } = await run('/usr/bin/python3', ['-c', pahoClient, `${site.port}`, `${version}`, thing, key, base], {
      timeout: 150_000,
    })
    const heard = [0, 1, 2].flatMap(to => [0, 1, 2].map(qos => `${to} [{"n":"a","v":${qos}}]`))
    expect(stdout.trim().split('\n')).toEqual([...heard, ...heard])
    expect(site.log.messages).toHaveLength(18)
  })
})
