// What the tools read from and write to: files, pipes, terminals, and what cannot be read or written. Each as a process.

import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { faultIn, faultOf, main, outputOf, shell } from './command.ts'

const pack = '[{"n":"a","v":1}]'
const validate = ['senml', 'validate']

/** Runs a line of the shell on a terminal of its own, and gives what appears there. `script` has one form on Linux and another on macOS. */
async function onTerminal(line: string): Promise<{ code: number | null; shown: string }> {
  const quoted = `'${line.replaceAll("'", String.raw`'\''`)}'`
  const { code, output } = await shell(
    process.platform === 'linux' ? `script -qec ${quoted} /dev/null` : `script -q /dev/null bash -c ${quoted}`,
  )
  return { code, shown: output.toString().replaceAll('\r', '').trim() }
}

const typed = `'${process.execPath}' '${main}'`

describe('input', () => {
  test('comes from a file, from standard input without one or with -, and from a pipe that has a name', async () => {
    const file = join(temporaryFolder(), 'a pack.json')
    writeFileSync(file, pack)
    expect((await outputOf([...validate, file])).toString()).toBe('ok, 1 records\n')
    expect((await outputOf(validate, pack)).toString()).toBe('ok, 1 records\n')
    expect((await outputOf([...validate, '-'], pack)).toString()).toBe('ok, 1 records\n')
    expect((await shell(`sluice senml validate <(echo '${pack}')`)).output.toString()).toBe('ok, 1 records\n')
  })

  test('a file that is missing, a folder, a file in a circle of links, and an empty one are each named', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'empty'), '')
    symlinkSync('circle', join(folder, 'circle'))
    expect(await faultOf([...validate, join(folder, 'none.json')])).toBe(`there is no file "${folder}/none.json"`)
    expect(await faultOf([...validate, folder])).toBe(`"${folder}" is a folder: name a file`)
    expect(await faultOf([...validate, join(folder, 'circle')])).toBe(`"${folder}/circle" cannot be read (ELOOP)`)
    expect(await faultOf([...validate, join(folder, 'empty')])).toBe(`"${folder}/empty" is empty: there is nothing to validate`)
  })

  test('a file that this user may not read is named', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'secret.json')
    writeFileSync(file, pack)
    chmodSync(file, 0)
    // Root reads everything, unless it gives up the right to.
    const asReader = process.getuid?.() === 0 ? 'setpriv --bounding-set=-dac_override,-dac_read_search ' : ''
    expect(faultIn(await shell(`${asReader}${typed} senml validate ${file}`))).toBe(`"${file}" may not be read by this user (EACCES)`)
  })

  test('nothing, or a folder, as standard input is named', async () => {
    expect(await faultOf(validate, '')).toBe('standard input is empty: there is nothing to validate')
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'inner'))
    expect(faultIn(await shell('sluice senml validate < inner', folder))).toBe('standard input is a folder: name a file')
  })

  test('a terminal as standard input is told what to do, instead of waiting', async () => {
    expect(await onTerminal(`${typed} senml resolve`)).toEqual({
      code: 1,
      shown: 'there is no input: name a file, or pipe one in, as in: cat FILE | sluice senml resolve',
    })
  })

  test('more than 64 MiB is refused while it comes', async () => {
    expect(faultIn(await shell('head -c 70000000 /dev/zero | sluice senml validate'))).toBe(
      'standard input holds more than 64 MiB: split it',
    )
  })
})

describe('output', () => {
  const many = JSON.stringify(Array.from({ length: 20_000 }, (_, at) => ({ n: `sensor-${at}`, v: at })))

  test('a reader that has seen enough ends it without an error', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'many.json'), many)
    const { output, errors } = await shell('sluice senml resolve many.json | head -c 1; echo " ${PIPESTATUS[0]}"', folder)
    expect([output.toString(), errors]).toEqual(['[ 0\n', ''])
  })

  test('bytes are not written to a terminal', async () => {
    expect(await onTerminal(`echo '${pack}' | ${typed} senml to-cbor`)).toEqual({
      code: 1,
      shown: 'CBOR is not for a terminal: write it to a file or a pipe, or see it with --hex',
    })
    expect(await onTerminal(`echo '${pack}' | ${typed} senml to-cbor --hex`)).toEqual({ code: 0, shown: '81a20061610201' })
  })

  test.runIf(process.platform === 'linux')('a full disk is named', async () => {
    expect(faultIn(await shell(`echo '${pack}' | sluice senml validate > /dev/full`))).toBe('standard output cannot be written (ENOSPC)')
  })
})
