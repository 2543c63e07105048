// Fleets from CSV, JSON and YAML: every bad row is named with its line and without its key.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ToolError } from '../../../../bin/streams.ts'
import { readFleet } from '../../../../roles/tools/provision/fleet.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'

function fileOf(name: string, text: string | Buffer): string {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, text)
  return path
}

/** The errors, without the folder; the last one says that nothing was sent. */
async function faultsOf(name: string, text: string | Buffer): Promise<string[]> {
  try {
    await readFleet(fileOf(name, text))
  } catch (error) {
    expect(error).toBeInstanceOf(ToolError)
    return (error as Error).message.split('\n').map(line => line.replace(/^(").*\/|^\/.*\//, '$1'))
  }
  return []
}

test.each([
  ['f.csv', 'external_id,external_key,name\nd-1,key-of-one,"the ""first"", of two"\n\nd-2,0002,\n', 'the "first", of two'],
  ['f.CSV', '\uFEFFname,external_key,external_id\r\n"the ""first"", of two",key-of-one,d-1\r\n\r\n,0002,d-2', 'the "first", of two'],
  ['f.csv', 'external_id,external_key\nd-1,key-of-one\n\nd-2,"0002"', undefined],
  [
    'f.json',
    '[\n{"external_id":"d-1","external_key":"key-of-one","name":"],{\\"\\\\"},\n\n{"external_id":"d-2","external_key":"0002"}]',
    '],{"\\',
  ],
  [
    'f.yaml',
    '# devices\n- external_id: d-1\n  external_key: key-of-one\n- {external_id: d-2, external_key: "0002", name: ""}\n',
    undefined,
  ],
  ['f.yml', '%YAML 1.2\n---\n- external_id: d-1\n  external_key: key-of-one\n- {external_id: d-2, external_key: "0002"}\n', undefined],
])('%s %j is read', async (name, text, called) => {
  const devices = await readFleet(fileOf(name, text))
  expect(devices).toMatchObject([
    { externalId: 'd-1', externalKey: 'key-of-one', ...(called === undefined ? {} : { name: called }) },
    { externalId: 'd-2', externalKey: '0002' },
  ])
  if (name !== 'f.yml') expect(devices.map(({ line }) => line)).toEqual([2, 4])
})

test('a quoted cell may contain lines, and later rows keep their line numbers', async () => {
  const text = 'external_id,external_key\r\n"d\r\n1",key-of-one\r\nd-2,\r\n'
  expect(await faultsOf('f.csv', text)).toEqual([
    'f.csv:2: external_id contains a control character or half of a surrogate pair: remove it',
    'f.csv:4: external_key is missing',
    'nothing was sent: correct these rows',
  ])
})

test.each([
  [
    'f.csv',
    'external_id,name\nd-1,x\n',
    'f.csv:1: the first line lacks external_key: start with a line such as external_id,external_key,name',
  ],
  ['f.csv', 'd-1,hidden\n', /^f\.csv:1: the first line lacks external_id and external_key/],
  ['f.csv', 'external_id,external_key,nmae\n', 'f.csv:1: unknown key nmae: did you mean name?'],
  [
    'f.csv',
    'external_id,external_key\nd-1,hid"den\n',
    'f.csv:2: unbalanced quote: enclose a cell that contains quotes in quotes, and double each of them',
  ],
  ['f.csv', 'external_id,external_key\nd-1,"hidden\n', /^f\.csv:2: unbalanced quote/],
  ['f.csv', 'external_id,external_key\n', 'f.csv: the file contains no devices'],
  ['f.json', '[\n{"external_id":"hidden}]', /^f\.json:2: it cannot be parsed \([A-Z_]+\)$/],
  ['f.json', '{"external_id":"hidden"}', /^f\.json: not a list: give \[/],
  ['f.yaml', '- a: hidden\n b: [', /^f\.yaml:2: it cannot be parsed \([A-Z_]+\)$/],
  ['f.yaml', '- &a [*a, *hidden]', /^f\.yaml: its aliases cannot be resolved/],
  ['f.yaml', 'external_id: hidden', /^f\.yaml: not a list/],
  ['f.yaml', '- a\n---\n- b\n', /^f\.yaml:2: it cannot be parsed \(MULTIPLE_DOCS\)$/],
  ['f.txt', 'hidden', /^"f\.txt" has an unknown format: give a file that ends in \.csv/],
  ['f.csv', '', /is empty: nothing to provision$/],
  ['f.csv', Buffer.from('external_id,external_key\nd\xff,hidden', 'latin1'), 'f.csv: this is not UTF-8: save it as UTF-8'],
])('%s %j is refused completely', async (name, text, fault) => {
  const found = await faultsOf(name, text)
  expect(found).toEqual([typeof fault === 'string' ? fault : expect.stringMatching(fault)])
  expect(found.join()).not.toContain('hidden')
})

test.each([
  ['external_key: k', 'external_id is missing'],
  ['external_id: d', 'external_key is missing'],
  ['{external_id: d, external_key: ""}', 'external_key is empty'],
  ['{external_id: 0012, external_key: hidden}', 'external_id is not text: put it in quotes'],
  ['{external_id: d, external_key: 12}', 'external_key is not text: put it in quotes'],
  ['{external_id: d, external_key: hidden, name: [a]}', 'name is not text: put it in quotes'],
  ['{external_id: d, external_key: hidden, nam: a}', 'unknown key nam: did you mean name?'],
  ['{external_id: d, external_key: hidden, colour: red}', 'unknown key colour: the keys are external_id, external_key, name'],
  [`{external_id: ${'é'.repeat(513)}, external_key: hidden}`, 'external_id has more than 1024 bytes'],
  ['hidden', 'it is not an object with external_id, external_key, name'],
  ['[hidden]', 'it is not an object with external_id, external_key, name'],
  ['{external_id: first, external_key: hidden}', 'its external_id is already used in line 1'],
])('the row %s is named with its line', async (row, fault) => {
  const text = `- {external_id: first, external_key: k}\n- ${row}\n`
  const found = await faultsOf('f.yaml', text)
  expect(found).toEqual([`f.yaml:2: ${fault}`, 'nothing was sent: correct these rows'])
  expect(found.join()).not.toContain('hidden')
})

test('elements of JSON that are not devices are named with their lines, whatever they contain', async () => {
  const text = '[\n"hidden",\n{"external_id":"a","external_key":[\n{"b":[]}, 1]},\n[{"c":{}}],\n\n null, {}\n]'
  expect((await faultsOf('f.json', text)).map(fault => fault.slice(0, 9))).toEqual([
    'f.json:2:',
    'f.json:3:',
    'f.json:5:',
    'f.json:7:',
    'f.json:7:',
    'nothing w',
  ])
})

test('of many bad rows the first twenty are named', async () => {
  const found = await faultsOf('f.csv', `external_id,external_key\n${'d,\n'.repeat(30)}`)
  expect(found).toHaveLength(22)
  expect(found[20]).toBe('and 10 more')
})
