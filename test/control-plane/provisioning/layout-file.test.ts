// The layout file: its layout, its bounds, and that everything unknown stops a start with its place.

import { expect, test } from 'vitest'
import { defaultLayout } from '../../../control-plane/provisioning/layout.ts'
import { readLayout } from '../../../control-plane/provisioning/layout-file.ts'
import { faultsOf, layoutOf } from './layouts.ts'

test('without a file, and with an empty one, one thing and the channels control and data (SPEC §2)', () => {
  expect(defaultLayout.things).toEqual([{ name: 'thing', metadata: { external_id: '' }, isExternal: true }])
  expect(defaultLayout.channels.map(({ metadata }) => metadata['type'])).toEqual(['control', 'data'])
  expect(readLayout(undefined, { compatibility: 'none', environment: {} })).toMatchObject({ layout: defaultLayout, warnings: [] })
  expect(layoutOf('').layout).toEqual(defaultLayout)
})

test("a file gives the layout's things, channels, certificates and content, in its order and with its types", () => {
  const { layout } = layoutOf(`
[[things]]
name = "sensor"
[[things]]
name = "gateway"
metadata = { external_id = "", site = "roof" }
[[channels]]
name = "plain"
[bootstrap]
autowhite_list = false
x509_provision = true
[bootstrap.content.app]
port = "9999"
qos = 1
retain = false
list = [1, "a"]
[cert]
ttl = "1h30m"
key_type = "EC"
key_bits = 256
`)
  expect(layout).toEqual({
    things: [
      { name: 'sensor', metadata: {}, isExternal: false },
      { name: 'gateway', metadata: { external_id: '', site: 'roof' }, isExternal: true },
    ],
    channels: [{ name: 'plain', metadata: {} }],
    bootstrap: {
      isProvisioned: true,
      isWhitelisted: false,
      hasCertificates: true,
      content: { app: { port: '9999', qos: 1, retain: false, list: [1, 'a'] } },
    },
    certificate: { ttlSeconds: 5_400, keyType: 'ec', rsaBits: 4096 },
  })
})

test.each([
  ['"" for the content', '[bootstrap]\ncontent = ""', {}],
  ['an empty content', '[bootstrap.content]', {}],
  ['a layout without channels', 'channels = []', { channels: [] }],
  ['no thing with external_id, without a configuration', '[bootstrap]\nprovision = false\n[[things]]\nname = "a"', {}],
  [
    'a channel that exists',
    '[[channels]]\nid = "3E7C5A18-42D9-4B6F-A1C0-8D9E2F7B6A54"\nmetadata = { type = "data" }',
    { channels: [{ id: '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54', name: '', metadata: { type: 'data' } }] },
  ],
  ['a duration in seconds', '[cert]\nttl = "3600"', { certificate: { ttlSeconds: 3_600, keyType: 'ec' } }],
  ['RSA without its bits', '[cert]\nkey_type = "rsa"', { certificate: { keyType: 'rsa', rsaBits: 4096 } }],
  ['bits without a type, which are those of RSA', '[cert]\nkey_bits = 3072', { certificate: { keyType: 'rsa', rsaBits: 3072 } }],
])('%s is valid', (_name, text, part) => {
  const { layout } = layoutOf(text)
  expect(layout).toMatchObject(part)
  expect(layout.bootstrap).not.toHaveProperty('content')
})

const siteChannel = '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54'
const thing = '[[things]]\nmetadata = { external_id = "" }\n'

test.each([
  ['an unknown key', 'svc_usr = "a"', 'config.toml:1: unknown option svc_usr: did you mean svc_user?'],
  ['an unknown section', '[bootstap]', 'config.toml:1: unknown option bootstap: did you mean bootstrap?'],
  ['an unknown key of a section', '[cert]\nkey_bit = 2048', 'config.toml:2: unknown option cert.key_bit: did you mean cert.key_bits?'],
  ['an unknown key of a thing', `${thing}nmae = "a"`, 'config.toml:3: unknown option things[0].nmae: did you mean things[0].name?'],
  ['an unknown key below [server]', '[server]\nopne = true', 'config.toml:2: unknown option opne: did you mean open?'],
  ['a server that is not a section', 'server = 1', 'config.toml:1: server is a section: write it as [server]'],
  ['what is given at the top and below [server]', 'open = true\n[server]\nopen = true', 'config.toml:3: open is given twice: remove one'],
  ['a wrong type', '[bootstrap]\nprovision = "yes"', 'config.toml:2: bootstrap.provision is "yes": give true or false'],
  [
    'content that is not a table',
    '[bootstrap]\ncontent = "hunter2"',
    'config.toml:2: bootstrap.content is set (value not shown): give a table, [bootstrap.content], or "" for none',
  ],
  ['a text that is not TOML', 'open = ', /^config\.toml:1.*this is not TOML/],
  ['no things', 'things = []', /^config\.toml:1: things is \[\]: give a list of 1 to 100 items/],
  ['101 things', thing.repeat(101), /^config\.toml:1: things is .*: give a list of 1 to 100 items/],
  ['101 channels', '[[channels]]\n'.repeat(101), /^config\.toml:1: channels is .*: give a list of 0 to 100 items/],
  ['an id that is none', '[[channels]]\nid = "site"', /^config\.toml:2: channels\[0\]\.id is "site": give a UUID/],
  [
    'a name of a channel that exists',
    `[[channels]]\nid = "${siteChannel}"\nname = "site"`,
    'config.toml:3: channels.0.name is that of a channel that exists: remove it, or the id',
  ],
  [
    'one channel twice',
    `[[channels]]\nid = "${siteChannel}"\n[[channels]]\nid = "${siteChannel.toUpperCase()}"`,
    'config.toml:4: channels.1.id is that of channels.0 too: remove one',
  ],
  [
    'two things with external_id',
    thing + thing,
    'config.toml:3: things.1 contains external_id, but things.0 does too: only one thing can have it',
  ],
  [
    'no thing with external_id',
    '[[things]]\nname = "a"',
    'config.toml:1: things has no thing with external_id in its metadata: give it to one, or set bootstrap.provision = false',
  ],
  [
    'a name beyond 1,024 bytes',
    `[[channels]]\nname = "${'é'.repeat(513)}"`,
    'config.toml:2: channels.0.name has 1026 bytes in UTF-8: give at most 1024',
  ],
  [
    'a placeholder in a name',
    '[[channels]]\nname = "{{thing.id}}"',
    'config.toml:2: channels.0.name {{thing.id}}: in a name {{external_id}} and {{name}} of the request are filled, and nothing else',
  ],
  [
    'a private key in a name',
    '[[channels]]\nname = "{{certificate.client_key}}"',
    'config.toml:2: channels.0.name {{certificate.client_key}}: in a name {{external_id}} and {{name}} of the request are filled, and nothing else',
  ],
  ['a date in metadata', '[[channels]]\nmetadata = { at = 2024-01-01T00:00:00Z }', /^config\.toml:2: channels\.0\.metadata\.at is a date/],
  ['a duration', '[cert]\nttl = "a while"', /^config\.toml:2: cert\.ttl is "a while": give a duration such as 2400h/],
  ['an empty duration', '[cert]\nttl = ""', /^config\.toml:2: cert\.ttl is ""/],
  ['a duration that is too long', '[cert]\nttl = "900000h"', /^config\.toml:2: cert\.ttl is "900000h": .*to 876000h$/],
  ['a type of key', '[cert]\nkey_type = "dsa"', 'config.toml:2: cert.key_type is "dsa": give rsa or ec'],
  ['bits of a key', '[cert]\nkey_bits = 1024', 'config.toml:2: cert.key_bits is 1024: give one of 2048, 3072, 4096'],
])('%s stops the start', (_name, text, fault) => {
  expect(faultsOf(() => layoutOf(text))).toEqual([typeof fault === 'string' ? fault : expect.stringMatching(fault)])
})

test('an absent file is named with its variable', () => {
  expect(faultsOf(() => readLayout('/nowhere/config.toml', { compatibility: 'none', environment: {} }))).toEqual([
    'config.toml (SVC_PROVISION_CONFIG_PATH): file not found: give the path of a TOML file',
  ])
})

test('all faults are reported at once', () => {
  const text = `${thing}${thing}[cert]\nttl = "x"\nkey_bits = 1\n[bootstrap.content]\na = "{{b}}"`
  expect(faultsOf(() => layoutOf(text))).toHaveLength(4)
})

test.each([
  [['control', 'data', 'export'], 0],
  [['data', 'control'], 0],
  [['export', 'control', 'data'], 1],
  [['control'], 1],
])('the start warns if the edge agent would use the channels %j in the wrong roles', (types, warnings) => {
  const channels = types.map(type => `[[channels]]\nmetadata = { type = "${type}" }\n`).join('')
  expect(layoutOf(`${channels}[bootstrap.content.agent.log]\nlevel = "info"`).warnings).toHaveLength(warnings)
  expect(layoutOf(`${channels}[bootstrap.content.app]\nlevel = "info"`).warnings).toEqual([])
})
