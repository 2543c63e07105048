#!/usr/bin/env node
// The launcher behind `npx sluice`: finds Node 24 or newer and runs main.ts with it, or says what to do. Plain JavaScript, since an older Node may start it.
//
// JavaScript cannot exec, so under an older Node the platform is a process of its own. It holds one end of a pipe and this one the
// other, and it stops when that closes: also where this one gets SIGKILL (bin/launcher.ts).

import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const nodeMajorMin = 24
const root = fileURLToPath(new URL('..', import.meta.url))
const main = join(root, 'main.ts')

/** The Node that comes with the project, by its package for this system. */
function ownNode() {
  const names = [`node-${process.platform}-${process.arch}`, `node-bin-${process.platform}-${process.arch}`]
  return names.map(name => join(root, 'node_modules', name, 'bin', 'node')).find(path => existsSync(path))
}

if (!existsSync(join(root, 'node_modules', '.package-lock.json'))) {
  console.error(`sluice is not installed yet: run npm start in ${root}`)
  process.exitCode = 1
} else if (Number(process.versions.node.split('.', 1)[0]) >= nodeMajorMin) {
  stopWithNpm(() => process.kill(process.pid, 'SIGTERM'))
  await import(main)
} else {
  const node = ownNode()
  if (node === undefined) {
    console.error(
      `sluice needs Node ${nodeMajorMin} and this is ${process.versions.node}: run npm start in ${root}, which brings it along, or install it`,
    )
    process.exitCode = 1
  } else {
    run(node)
  }
}

function run(node) {
  const child = spawn(node, [main, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, SLUICE_LAUNCHER: String(process.pid) },
  })
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  const forward = signal => child.kill(signal)
  for (const signal of signals) process.on(signal, forward)
  stopWithNpm(() => child.kill('SIGTERM'))
  child.on('error', error => {
    console.error(`sluice cannot run ${node} (${error.code}): run npm ci in ${root}`)
    process.exitCode = 1
  })
  child.on('close', (code, signal) => {
    for (const signal of signals) process.off(signal, forward)
    // Ended by a signal: whoever started this is told the same.
    if (signal !== null) process.kill(process.pid, signal)
    else process.exitCode = code
  })
}

/**
 * Calls `stop` when the npm that started this process is gone: npx, which a person sees among the processes, may be the one that is killed.
 * npm starts this process by a shell, which goes on without it; so both are watched.
 */
function stopWithNpm(stop) {
  if (process.env.npm_command !== 'exec') return
  const parent = process.ppid
  let npm = parent
  // Some shells become what they start, and then the parent is npm itself.
  execFile('ps', ['-o', 'ppid=,comm=', '-p', String(parent)], (error, line) => {
    const [, grandparent, name] = /^\s*(\d+)\s+(.*\S)/.exec(error === null ? line : '') ?? []
    if (/(^|[-/])\w*sh$/.test(name ?? '')) npm = Number(grandparent)
  })
  const timer = setInterval(() => {
    if (process.ppid === parent && isRunning(npm)) return
    clearInterval(timer)
    stop()
  }, 1000).unref()
}

function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code !== 'ESRCH'
  }
}
