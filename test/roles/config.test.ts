// `sluice config` on the roles, and one environment for all of them.

import { join } from 'node:path'
import { expect, test } from 'vitest'
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

test.each(['up', 'api', 'ingest'])('%s takes an environment in which all roles have their variables', async role => {
  expect(await config(['check', role], environment)).toEqual([0, 'ok\n'])
})

test('a variable that no role has is a fault of every role', async () => {
  const [code, printed] = await config(['check', 'ingest'], { SVC_CONTROL_TOKN: 'x' })
  expect([code, printed]).toEqual([
    1,
    expect.stringContaining('SVC_CONTROL_TOKN: there is no such variable: did you mean SVC_CONTROL_TOKEN?'),
  ])
})

test('what is in force is printed without its secrets', async () => {
  const [code, printed] = await config(['print', 'api'], environment)
  expect(code).toBe(0)
  expect(printed).toMatch(/^master_key = "\*\*\*"$/m)
  expect(printed).toMatch(/^\[internal\]\nlisten = "127\.0\.0\.1:0"\ntoken = "\*\*\*"$/m)
  for (const name of ['SVC_MASTER_KEY', 'SVC_CONTROL_TOKEN', 'SVC_ADMIN_PASSWORD']) expect(printed).not.toContain(environment[name])
  expect(printed).not.toContain('hidden-word')
})

test.each(['api', 'ingest'])('a sample of %s names its sections', async role => {
  const [code, printed] = await config(['sample', role])
  expect([code, printed]).toEqual([0, expect.stringMatching(/^\[internal\]$/m)])
})

test('a role that does not exist is told with those that do', async () => {
  const [code, printed] = await config(['check', 'igest'])
  expect([code, printed]).toEqual([
    1,
    expect.stringMatching(
      /there is no role "igest": the roles are up, api, writer relational, writer widecolumn, writer timeseries, writer document, ingest/,
    ),
  ])
})

test('a writer is named with its store, by either of its names', async () => {
  expect(await config(['check', 'writer', 'postgres'], environment)).toEqual([
    1,
    expect.stringMatching(/store\.url: it is required: set SVC_RELATIONAL_URL/),
  ])
  expect(await config(['check', 'writer', 'document'], { ...environment, SVC_DOCUMENT_URL: 'mongodb://mongo/sluice' })).toEqual([0, 'ok\n'])
  const [code, printed] = await config(['check', 'writer'])
  expect([code, printed]).toEqual([1, expect.stringMatching(/there is no role "writer": the roles are .*writer relational/)])
})

test.each(['relational', 'widecolumn', 'timeseries', 'document'])(
  'a sample of a writer to a store of the kind %s has its section',
  async store => {
    const [code, printed] = await config(['sample', 'writer', store])
    expect([code, printed]).toEqual([0, expect.stringMatching(/^\[store\]$/m)])
  },
)
