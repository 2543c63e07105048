// A process for the tests of the data folder: opens it, prints how the last one ended, and waits to be killed.

import { openDataFolder } from '../../config/data-folder.ts'

const folder = await openDataFolder(process.argv[2]!)
console.log(folder.lastStop)
setInterval(() => {}, 1000)
