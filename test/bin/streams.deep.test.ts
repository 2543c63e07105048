// Input and output of the tools, each as a process: files, pipes, terminals, and unreadable or unwritable ones.

import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { faultIn, faultOf, main, onTerminal, outputOf, shell } from './command.ts'

const pack = '[{"n":"a","v":1}]'
const validate = ['senml', 'validate']

const typed = `'${process.execPath}' '${main}'`

describe('input', () => {
  test('is read from a file, from standard input by default or with -, and from a named pipe', async () => {
    const file = join(temporaryFolder(), 'a pack.json')
    writeFileSync(file, pack)
    expect((await outputOf([...validate, file])).toString()).toBe('ok, 1 records\n')
    expect((await outputOf(validate, pack)).toString()).toBe('ok, 1 records\n')
    expect((await outputOf([...validate, '-'], pack)).toString()).toBe('ok, 1 records\n')
    expect((await shell(`sluice senml validate <(echo '${pack}')`)).output.toString()).toBe('ok, 1 records\n')
  })

  test('a missing file, a folder, a file in a loop of links, and an empty one are each reported', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'empty'), '')
    symlinkSync('circle', join(folder, 'circle'))
    expect(await faultOf([...validate, join(folder, 'none.json')])).toBe(`file not found: "${folder}/none.json"`)
    expect(await faultOf([...validate, folder])).toBe(`"${folder}" is a folder: name a file`)
    expect(await faultOf([...validate, join(folder, 'circle')])).toBe(`"${folder}/circle" cannot be read (ELOOP)`)
    expect(await faultOf([...validate, join(folder, 'empty')])).toBe(`"${folder}/empty" is empty: nothing to validate`)
  })

  test('a file that this user may not read is reported', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'secret.json')
    writeFileSync(file, pack)
    chmodSync(file, 0)
    // Root can read everything unless it drops that capability.
    const asReader = process.getuid?.() === 0 ? 'setpriv --bounding-set=-dac_override,-dac_read_search ' : ''
    expect(faultIn(await shell(`${asReader}${typed} senml validate ${file}`))).toBe(`"${file}" is not readable for this user (EACCES)`)
  })

  test('a closed standard input, or a folder, is reported', async () => {
    expect(await faultOf(validate, '')).toBe('standard input is empty: nothing to validate')
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'inner'))
    expect(faultIn(await shell('sluice senml validate < inner', folder))).toBe('standard input is a folder: name a file')
  })

  test('a terminal as standard input is refused with what to do, instead of waiting', async () => {
    expect(await onTerminal(`${typed} senml resolve`)).toEqual({
      code: 1,
      shown: 'no input: name a file or pipe one in, for example: cat FILE | ./sluice senml resolve',
    })
  })

  test('more than 64 MiB is refused while it is read', async () => {
    expect(faultIn(await shell('head -c 70000000 /dev/zero | sluice senml validate'))).toBe('standard input has more than 64 MiB: split it')
  })
})

describe('output', () => {
  const many = JSON.stringify(Array.from({ length: 20_000 }, (_, at) => ({ n: `sensor-${at}`, v: at })))

  test('a reader that closes its pipe ends it without an error', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'many.json'), many)
    const { output, errors } = await shell('sluice senml resolve many.json | head -c 1; echo " ${PIPESTATUS[0]}"', folder)
    expect([output.toString(), errors]).toEqual(['[ 0\n', ''])
  })

  test('bytes are not written to a terminal', async () => {
    expect(await onTerminal(`echo '${pack}' | ${typed} senml to-cbor`)).toEqual({
      code: 1,
      shown: 'CBOR cannot be shown on a terminal: write it to a file or a pipe, or see it with --hex',
    })
    expect(await onTerminal(`echo '${pack}' | ${typed} senml to-cbor --hex`)).toEqual({ code: 0, shown: '81a20061610201' })
  })

  test.runIf(process.platform === 'linux')('a full disk is reported', async () => {
    expect(faultIn(await shell(`echo '${pack}' | sluice senml validate > /dev/full`))).toBe('standard output cannot be written (ENOSPC)')
  })
})
