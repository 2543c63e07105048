// The example layout for the edge agent: it loads, and the values that agents and exports read have the types of their structures.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fillContent } from '../../../control-plane/provisioning/content.ts'
import { readLayout } from '../../../control-plane/provisioning/layout-file.ts'

const path = join(import.meta.dirname, '../../../deploy/provision/edge-agent.toml')
const { layout, warnings, settings } = readLayout(path, { compatibility: 'none', environment: {} })

type Kind = 'text' | 'integer' | 'boolean' | 'duration'
const mqtt = {
  username: 'text',
  password: 'text',
  mtls: 'boolean',
  skip_tls_ver: 'boolean',
  retain: 'boolean',
  qos: 'integer',
  ca_path: 'text',
  cert_path: 'text',
  priv_key_path: 'text',
} as const

/** The structures that the agent and export decode the content into: a wrong type makes all of it fail. */
const structures: Readonly<Record<string, Readonly<Record<string, Kind>>>> = {
  'agent.edgex': { url: 'text' },
  'agent.log': { level: 'text' },
  'agent.mqtt': { url: 'text', ...mqtt, client_cert: 'text', client_key: 'text', ca_cert: 'text' },
  'agent.server': { port: 'text', nats_url: 'text' },
  'agent.heartbeat': { interval: 'duration' },
  'agent.terminal': { session_timeout: 'duration' },
  'agent.channels': { control: 'text', data: 'text' },
  'export.exp': { log_level: 'text', nats: 'text', port: 'text', cache_url: 'text', cache_pass: 'text', cache_db: 'text' },
  'export.mqtt': { host: 'text', channel: 'text', ...mqtt },
  'export.routes.0': { mqtt_topic: 'text', nats_topic: 'text', subtopic: 'text', type: 'text', workers: 'integer' },
  'export.routes.1': { mqtt_topic: 'text', nats_topic: 'text', subtopic: 'text', type: 'text', workers: 'integer' },
}

const content = JSON.parse(
  fillContent(layout.bootstrap.content!, {
    externalId: 'gateway-1',
    thing: { id: 'thing-id', key: 'thing-key', name: 'gateway' },
    channels: layout.channels.map(({ name, metadata }) => ({ id: `${metadata['type'] as string}-id`, name, metadata })),
  }),
) as Record<string, Record<string, Record<string, unknown>>>

function sectionOf(name: string): Record<string, unknown> {
  return name.split('.').reduce<Record<string, unknown>>((inner, key) => inner[key] as Record<string, unknown>, content)
}

function kindOf(value: unknown): Kind | undefined {
  if (typeof value === 'string') return /^(\d+(\.\d+)?(h|m|s|ms))+$/.test(value) ? 'duration' : 'text'
  if (typeof value === 'boolean') return 'boolean'
  return Number.isInteger(value) ? 'integer' : undefined
}

test('it loads without a warning, with the three channels in the order in which agents use them', () => {
  expect(warnings).toEqual([])
  expect(settings).toMatchObject({ externalKeyBytesMin: 16 })
  expect(layout.channels.map(({ metadata }) => metadata['type'])).toEqual(['control', 'data', 'export'])
})

test.each(Object.entries(structures))('its section %s has every key of the structure, with its type', (name, structure) => {
  expect(Object.fromEntries(Object.entries(sectionOf(name)).map(([key, value]) => [key, kindOf(value)]))).toEqual(structure)
})

test('it has no other sections', () => {
  const sections = Object.entries(content).flatMap(([part, inner]) => Object.keys(inner).map(section => `${part}.${section}`))
  expect(sections.toSorted()).toEqual([...new Set(Object.keys(structures).map(name => name.replace(/\.\d$/, '')))].toSorted())
})

test('its credentials, channels and topics are those of the mapping', () => {
  expect(content['agent']!['mqtt']).toMatchObject({ username: 'thing-id', password: '{{thing.key}}' })
  expect(content['agent']!['channels']).toEqual({ control: 'control-id', data: 'data-id' })
  expect(content['export']!['mqtt']).toMatchObject({ username: 'thing-id', password: '{{thing.key}}', channel: 'export-id' })
  expect(content['export']!['routes']).toMatchObject([
    { mqtt_topic: 'channels/data-id/messages', workers: 10 },
    { mqtt_topic: 'channels/export-id/messages', subtopic: 'gateway-1' },
  ])
})
