// `sluice config` on the writer, whose file a variable may name (SPEC §2, writer configuration).

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../temporary-folder.ts'
import { spawnRole } from '../processes.ts'

const main = join(import.meta.dirname, '../../../main.ts')
const store = { SVC_RELATIONAL_URL: 'postgres://sluice:hidden-word@db/sluice' }

async function config(
  words: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<[code: number | string, printed: string]> {
  const spawned = spawnRole([main, 'config', ...words], { ...store, ...environment })
  return [await spawned.ended, spawned.printed()]
}

function fileOf(text: string): string {
  const path = join(temporaryFolder(), 'writer.toml')
  writeFileSync(path, text)
  return path
}

const good = (): string => fileOf('[subscriber]\nsubjects = ["channels.*.bedroom.temperature"]\n')

test('the file in the variable is checked and printed', async () => {
  const environment = { SVC_RELATIONAL_WRITER_CONFIG_PATH: good() }
  expect(await config(['check', 'writer', 'relational'], environment)).toEqual([0, 'ok\n'])
  const [code, printed] = await config(['print', 'writer', 'relational'], environment)
  expect([code, printed]).toEqual([0, expect.stringMatching(/^subjects = \["channels\.\*\.bedroom\.temperature"\]$/m)])
  expect(printed).not.toContain('hidden-word')
})

test('a fault in the file in the variable is reported with its line', async () => {
  const path = fileOf('[transformer]\nformat = "xml"\n')
  for (const action of ['check', 'print']) {
    const [code, printed] = await config([action, 'writer', 'relational'], { SVC_RELATIONAL_WRITER_CONFIG_PATH: path })
    expect([code, printed]).toEqual([1, expect.stringContaining(`${path}:2: transformer.format is "xml": give one of auto, senml, json`)])
  }
})

test('a missing file is reported with the variable that names it; for `sluice writer`, too', async () => {
  const environment = { SVC_RELATIONAL_WRITER_CONFIG_PATH: '/nowhere.toml' }
  const told = '/nowhere.toml (SVC_RELATIONAL_WRITER_CONFIG_PATH): file not found: give the path of a TOML file'
  for (const action of ['check', 'print']) {
    expect(await config([action, 'writer', 'relational'], environment)).toEqual([1, expect.stringContaining(told)])
  }
  const writer = spawnRole([main, 'writer', 'relational', '--port', '0'], { ...store, ...environment })
  expect([await writer.ended, writer.printed()]).toEqual([1, expect.stringContaining(told)])
})

test('an empty variable names no file, as if it were not set', async () => {
  const environment = { SVC_RELATIONAL_WRITER_CONFIG_PATH: '' }
  expect(await config(['check', 'writer', 'relational'], environment)).toEqual([0, 'ok\n'])
  const [code, printed] = await config(['print', 'writer', 'relational'], environment)
  expect([code, printed]).toEqual([0, expect.stringMatching(/^subjects = \["channels\.>"\]$/m)])
})

test('--config takes precedence over the variable, and the only way for other roles', async () => {
  const environment = { SVC_RELATIONAL_WRITER_CONFIG_PATH: '/nowhere.toml' }
  expect(await config(['check', 'writer', 'relational', '--config', good()], environment)).toEqual([0, 'ok\n'])
  expect(await config(['check', 'ingest'], environment)).toEqual([0, 'ok\n'])
})

test('variables of SPEC that belong to other stores and services are accepted', async () => {
  const environment = {
    SVC_PROVISION_USER: 'a',
    SVC_PROVISION_PASSWORD: 'b',
    SVC_PROVISION_API_KEY_FILE: '/run/secrets/key',
    SVC_WIDECOLUMN_URL: 'cassandra://one',
    SVC_TIMESERIES_URL: 'http://influx',
    SVC_TIMESERIES_TOKEN: 'c',
    SVC_DOCUMENT_URL: 'mongodb://one',
    SVC_DOCUMENT_WRITER_CONFIG_PATH: '/nowhere.toml',
  }
  expect(await config(['check', 'writer', 'relational'], environment)).toEqual([0, 'ok\n'])
})
