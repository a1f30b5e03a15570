package result

// ScenarioDrainMap is what Run.Scenario says of the map of pre-stop and drain. Its cases
// have an Ending.
const ScenarioDrainMap = "drainmap"
