// `sluice config` on the roles, and one environment for all of them.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listOptions } from '../../config/options/schema.ts'
import { named } from '../../config/options/variable.ts'
import { roles } from '../../roles/roles.ts'
import { readProject } from '../tidy/files.ts'
import { apiEnvironment, spawnRole } from './processes.ts'

const main = join(import.meta.dirname, '../../main.ts')

async function config(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<[code: number | string, printed: string]> {
  const spawned = spawnRole([main, 'config', ...words], environment)
  return [await spawned.ended, spawned.printed()]
}

const environment = apiEnvironment('postgres://sluice:hidden-word@db/sluice', { SVC_LOG_TOPIC: 'messages' })

test.each(['up', 'api', 'ingest'])('%s accepts an environment with the variables of all roles', async role => {
  expect(await config(['check', role], environment)).toEqual([0, 'ok\n'])
})

test('an unknown variable is a fault in every role', async () => {
  const [code, printed] = await config(['check', 'ingest'], { SVC_CONTROL_TOKN: 'x' })
  expect([code, printed]).toEqual([1, expect.stringContaining('SVC_CONTROL_TOKN: unknown variable: did you mean SVC_CONTROL_TOKEN?')])
})

test('the options in force are printed without secrets', async () => {
  const [code, printed] = await config(['print', 'api'], environment)
  expect(code).toBe(0)
  expect(printed).toMatch(/^master_key = "\*\*\*"$/m)
  expect(printed).toMatch(/^\[internal\]\nlisten = "127\.0\.0\.1:0"\ntoken = "\*\*\*"$/m)
  for (const name of ['SVC_MASTER_KEY', 'SVC_CONTROL_TOKEN', 'SVC_ADMIN_PASSWORD']) expect(printed).not.toContain(environment[name])
  expect(printed).not.toContain('hidden-word')
})

test.each(['api', 'ingest', 'bridge'])('a sample of %s contains its sections', async role => {
  const [code, printed] = await config(['sample', role])
  expect([code, printed]).toEqual([0, expect.stringMatching(/^\[internal\]$/m)])
})

test('an unknown role is reported with the known ones', async () => {
  const [code, printed] = await config(['check', 'igest'])
  expect([code, printed]).toEqual([
    1,
    expect.stringMatching(
      /unknown role "igest": the roles are up, api, writer relational, writer widecolumn, writer timeseries, writer document, ingest, bridge, reader relational, reader widecolumn, reader timeseries, reader document/,
    ),
  ])
})

test('a writer is named with its store, by either name', async () => {
  expect(await config(['check', 'writer', 'postgres'], environment)).toEqual([
    1,
    expect.stringMatching(/store\.url: it is required: set SVC_RELATIONAL_URL/),
  ])
  expect(await config(['check', 'writer', 'document'], { ...environment, SVC_DOCUMENT_URL: 'mongodb://mongo/sluice' })).toEqual([0, 'ok\n'])
  const [code, printed] = await config(['check', 'writer'])
  expect([code, printed]).toEqual([1, expect.stringMatching(/unknown role "writer": the roles are .*writer relational/)])
})

test('a reader is named with its store, has its own file, and its secrets are not printed', async () => {
  const of = {
    ...environment,
    SVC_DOCUMENT_URL: 'mongodb://x:hidden-word@mongo/sluice',
    SVC_READER_CURSOR_KEY: environment['SVC_MASTER_KEY']!,
  }
  const [code, printed] = await config(['print', 'reader', 'mongodb'], of)
  expect([code, printed]).toEqual([0, expect.stringMatching(/^cursor_key = "\*\*\*"$/m)])
  expect(printed).toMatch(/^\[http\]\n(.+\n)*port = 9084$/m)
  for (const secret of ['hidden-word', environment['SVC_MASTER_KEY']]) expect(printed).not.toContain(secret)
  expect(await config(['check', 'reader', 'relational'], { SVC_RELATIONAL_READER_CONFIG_PATH: '/absent/reader.toml' })).toEqual([
    1,
    expect.stringMatching(/absent\/reader\.toml.*SVC_RELATIONAL_READER_CONFIG_PATH/),
  ])
})

test.each([
  [['reader'], /the store is missing: the stores are relational \(or postgres\), .*document \(or mongodb\)/],
  [['reader', 'graph'], /unknown store "graph": the stores are relational/],
  [['writer'], /the store is missing: the stores are relational/],
] as const)('sluice %j names the known stores', async (words, says) => {
  const spawned = spawnRole([main, ...words], {})
  expect(await spawned.ended).toBe(1)
  expect(spawned.printed()).toMatch(says)
})

test('sluice reader --help shows how to start it on every store', async () => {
  const spawned = spawnRole([main, 'reader', '--help'], {})
  expect(await spawned.ended).toBe(0)
  for (const store of ['relational', 'widecolumn', 'timeseries', 'document'])
    expect(spawned.printed().split('Examples:')[1]).toContain(`sluice reader ${store}`)
})

test.each(
  ['relational', 'widecolumn', 'timeseries', 'document'].flatMap(store => ['writer', 'reader'].map(role => [role, store] as const)),
)('a sample of a %s with a %s store contains its section', async (role, store) => {
  const [code, printed] = await config(['sample', role, store])
  expect([code, printed]).toEqual([0, expect.stringMatching(/^\[store\]$/m)])
})

test('each option that an error names exists, and so does its variable', async () => {
  const all = await Promise.all(Object.values(roles).map(role => role()))
  const known = new Set(all.flatMap(({ schema }) => listOptions(schema).map(({ name, variable }) => `${name} (${variable})`)))
  const said = new Map<string, string>()
  for (const { path, text } of await readProject()) {
    if (!/^(config|control-plane|pipeline|readers|roles|sinks)\/.*\.ts$/.test(path)) continue
    for (const [, option, variable] of text.matchAll(/\bnamed\('([a-z]+\.[a-z_]+)'(?:, '([A-Z_]+)')?\)/g))
      said.set(named(option!, variable), path)
    for (const [whole] of text.matchAll(/[a-z]+(?:\.[a-z_]+)+ \(SVC_[A-Z_]+\)/g)) said.set(whole, path)
  }
  expect(said.size).toBeGreaterThan(20)
  expect([...said].filter(([place]) => !known.has(place))).toEqual([])
})
