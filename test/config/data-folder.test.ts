// The data folder: one process at a time, however the last one ended, and what is known of that end.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { DataFolderError, DataFolderInUseError, openDataFolder } from '../../config/data-folder.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const script = fileURLToPath(new URL('data-folder-process.ts', import.meta.url))
const children: ChildProcess[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

const newPath = () => join(temporaryFolder(), 'data')

async function openElsewhere(path: string): Promise<{ child: ChildProcess; lastStop: string }> {
  const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, lastStop: chunk.toString().trim() }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'close')
}

const modeOf = (path: string) => statSync(path).mode & 0o777
const isRoot = process.getuid?.() === 0

/** What a process of the user "nobody" says, that cannot open the folder. */
async function refusalElsewhere(path: string): Promise<string> {
  const child = spawn(process.execPath, [script, path], { uid: 65534, gid: 65534, stdio: ['ignore', 'ignore', 'pipe'] })
  children.push(child)
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  await once(child, 'close')
  return said
}

test('a new folder is made for its owner only, and a clean stop is known as one', async () => {
  const path = newPath()
  const first = await openDataFolder(path)
  expect(first).toMatchObject({ path, lastStop: 'first' })
  expect([modeOf(path), modeOf(join(path, 'lock.db')), modeOf(join(path, 'state.json'))]).toEqual([0o700, 0o600, 0o600])
  await first.markClean()
  await first.close()
  await first.close()
  const second = await openDataFolder(path)
  expect(second.lastStop).toBe('clean')
  await second.close()
})

test('a second process is refused with a sentence that names the folder, the process and what to do', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  const refused = await openDataFolder(path).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DataFolderInUseError)
  expect((refused as Error).message).toBe(
    `the data folder ${path} is in use by process ${child.pid}: stop that one, or give another folder with --data`,
  )
})

test('SIGKILL leaves no lock behind, and the next start knows that the process was killed', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  await kill(child)
  const next = await openElsewhere(path)
  expect(next.lastStop).toBe('killed')
})

test('a process ending while the lock is waited for by nobody else gives it to exactly one of many', async () => {
  const path = newPath()
  const opened = await Promise.allSettled(Array.from({ length: 5 }, () => openDataFolder(path)))
  const won = opened.filter(result => result.status === 'fulfilled')
  expect(won).toHaveLength(1)
  await won[0]!.value.close()
})

test('an unclean stop before another boot of the machine is a power cut', async () => {
  const path = newPath()
  const folder = await openDataFolder(path)
  await folder.close()
  const statePath = join(path, 'state.json')
  const state = JSON.parse(readFileSync(statePath, 'utf8')) as object
  writeFileSync(statePath, JSON.stringify({ ...state, boot: 'another' }))
  // As long as nobody has noted that what is there is whole, also a start that is killed in its check is followed by another.
  for (let round = 0; round < 2; round++) {
    const next = await openDataFolder(path)
    expect(next.lastStop).toBe('power-cut')
    await next.close()
  }
  const checked = await openDataFolder(path)
  await checked.markChecked()
  await checked.close()
  const after = await openDataFolder(path)
  expect(after.lastStop).toBe('killed')
  await after.close()
})

test('a folder of a newer release is refused, and stays as it is', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  const statePath = join(path, 'state.json')
  const newer = JSON.stringify({ format: 99, pid: 1, boot: '', clean: true })
  writeFileSync(statePath, newer)
  await expect(openDataFolder(path)).rejects.toThrow(/has format 99 and this release reads up to 1: start the newer release/)
  expect(readFileSync(statePath, 'utf8')).toBe(newer)
  writeFileSync(statePath, JSON.stringify({ format: 1, pid: 1, boot: '', clean: true }))
  await (await openDataFolder(path)).close()
})

test('a damaged state file, and a path that is a file, are told in a sentence', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  writeFileSync(join(path, 'state.json'), '{"format":')
  await expect(openDataFolder(path)).rejects.toThrow('state.json is damaged')
  await expect(openDataFolder(join(path, 'state.json', 'inner'))).rejects.toThrow('a part of the path is a file')
})

test('a folder that was there before is closed to others where it is empty or a data folder', async () => {
  const path = newPath()
  mkdirSync(join(path, 'lost+found'), { recursive: true })
  chmodSync(path, 0o755)
  await (await openDataFolder(path)).close()
  expect(modeOf(path)).toBe(0o700)
  writeFileSync(join(path, 'master-key'), '')
  chmodSync(path, 0o775)
  chmodSync(join(path, 'lock.db'), 0o644)
  await (await openDataFolder(path)).close()
  expect([modeOf(path), modeOf(join(path, 'lock.db'))]).toEqual([0o700, 0o600])
})

test('a folder of other files that others can enter is refused with what to do, and stays as it is', async () => {
  const path = newPath()
  mkdirSync(join(path, 'photos'), { recursive: true })
  chmodSync(path, 0o755)
  await expect(openDataFolder(path)).rejects.toThrow(
    `the data folder ${path} has mode 0755, so that others can enter it, and holds other files, which may be meant for them: run chmod 700 ${path} as its owner, or give a new folder inside it with --data`,
  )
  expect(modeOf(path)).toBe(0o755)
  const inner = await openDataFolder(join(path, 'data'))
  expect(modeOf(inner.path)).toBe(0o700)
  await inner.close()
})

test.skipIf(!isRoot)('a folder of somebody else that others can enter is refused with what to do', async () => {
  const path = newPath()
  mkdirSync(path)
  chmodSync(join(path, '..'), 0o755)
  chmodSync(path, 0o777)
  expect(await refusalElsewhere(path)).toContain(
    `DataFolderError: the data folder ${path} has mode 0777, so that others can enter it, and this user may not change that: run chmod 700 ${path}`,
  )
})

test('folders above that are missing are made too, for the owner only', async () => {
  const path = newPath()
  await (await openDataFolder(join(path, 'a', 'b'))).close()
  expect([modeOf(path), modeOf(join(path, 'a')), modeOf(join(path, 'a', 'b'))]).toEqual([0o700, 0o700, 0o700])
})

test.skipIf(process.platform !== 'linux')('a place where no folder can be made is told in a sentence', async () => {
  await expect(openDataFolder('/proc/nope/inner')).rejects.toThrow(
    'the data folder /proc/nope/inner cannot be made: the system takes no folder there; give another one with --data',
  )
})

test('a state file that cannot be read, and one that cannot be written, are told in a sentence', async () => {
  const unreadable = newPath()
  mkdirSync(join(unreadable, 'state.json'), { recursive: true })
  const refused = await openDataFolder(unreadable).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DataFolderError)
  expect((refused as Error).message).toMatch(/state\.json cannot be read \(EISDIR\): give this user the data folder and its files/)

  const path = newPath()
  const folder = await openDataFolder(path)
  rmSync(join(path, 'state.json'))
  mkdirSync(join(path, 'state.json'))
  await expect(folder.markClean()).rejects.toThrow(`the data folder ${path} cannot be written (EISDIR): make room on its disk`)
  expect(readdirSync(path).filter(name => name.endsWith('.draft'))).toEqual([])
  await folder.close()
})
